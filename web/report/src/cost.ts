import { groupBy, number, text, type Line, type Report } from "./data";
import type { Page } from "./page";

/** The counts of rows that were measured: a logarithmic axis with its ticks there and nowhere else. */
function rowsAxis(lines: Line[]): Record<string, unknown> {
  const counts = [...new Set(lines.map((line) => number(line, "rows")))].sort((a, b) => a - b);
  const axis = { values: counts, format: "d", labelOverlap: "greedy" };
  return { field: "rows", type: "quantitative", title: "rows", scale: { type: "log", base: 2, nice: false }, axis };
}

function measured(report: Report): Line[] {
  return report.lines.filter((line) => "rows" in line);
}

/** `talon bench cost`: milliseconds of a forward of n rows, beside the machine's limit. */
export function showCost(page: Page, report: Report): void {
  const lines = measured(report);
  page.section("Cost of a check");
  page.chart("Milliseconds of a forward that gives the logits of all its rows, over those of one row", {
    lite: {
      data: { values: lines.map((line) => ({ ...line, name: `context ${text(line, "context")}` })) },
      mark: { type: "line", point: true },
      encoding: {
        x: rowsAxis(lines),
        y: { field: "c", type: "quantitative", title: "times one row" },
        color: { field: "name", type: "nominal", title: null },
        tooltip: [{ field: "name" }, { field: "rows" }, { field: "c", format: ".2f" }, { field: "ms", format: ".2f" }],
      },
    },
  });
  for (const [context, group] of groupBy(lines, (line) => text(line, "context"))) {
    page.section(`Context ${context}`);
    addTimes(page, group);
    addParts(page, group);
  }
  page.section("Numbers");
  page.tables(report.tables, "numbers");
}

function addTimes(page: Page, lines: Line[]): void {
  const x = rowsAxis(lines);
  const y = { field: "ms", type: "quantitative", title: "ms" };
  page.chart("A forward, with its spread; dashed: the limit", {
    lite: {
      data: { values: lines },
      layer: [
        { mark: "rule", encoding: { x, y: { ...y, field: "ms_least" }, y2: { field: "ms_most" } } },
        {
          mark: { type: "line", point: true },
          encoding: {
            x,
            y,
            tooltip: ["rows", "ms", "ms_least", "ms_most", "limit_ms", "percent_of_limit", "gb_s"].map((field) => ({ field, format: field === "rows" ? undefined : ".2f" })),
          },
        },
        { mark: { type: "line", strokeDash: [4, 4], color: "#8a94a0" }, encoding: { x, y: { ...y, field: "limit_ms" } } },
      ],
    },
  });
}

function addParts(page: Page, lines: Line[]): void {
  const parts = { projections: "projections_ms", "output head": "head_ms", attention: "attention_ms", rest: "rest_ms" };
  const values = lines.flatMap((line) =>
    Object.entries(parts).map(([part, key]) => ({ rows: number(line, "rows"), part, ms: Math.max(0, number(line, key)) })),
  );
  page.chart("Where the time goes", {
    lite: {
      height: 220,
      data: { values },
      mark: "bar",
      encoding: {
        x: { field: "rows", type: "ordinal", title: "rows", axis: { labelAngle: 0 } },
        y: { field: "ms", type: "quantitative", title: "ms" },
        color: { field: "part", type: "nominal", title: null, sort: Object.keys(parts) },
        tooltip: [{ field: "rows" }, { field: "part" }, { field: "ms", format: ".2f" }],
      },
    },
  });
}

/** `talon bench kernels`: what each operation reaches below the roof that the machine allows. */
export function showKernels(page: Page, report: Report): void {
  const lines = measured(report);
  const heading = (line: Line) => `${text(line, "kernels")}, ${text(line, "shape")}`;
  for (const [name, group] of groupBy(lines, heading)) {
    page.section(
      name,
      "What is reached against rows. Dashed: the limit, the slower of reading the weights (or the cache) and multiplying, both measured in the same process.",
    );
    const plot = (line: Line) => text(line, "format") + ("context" in line ? `, context ${text(line, "context")}` : "");
    for (const [format, points] of groupBy(group, plot)) addRoofline(page, format, points);
  }
  page.section("Numbers");
  page.tables(report.tables, "numbers");
}

function addRoofline(page: Page, title: string, lines: Line[]): void {
  const values = lines.map((line) => ({ ...line, roof: (number(line, "gmac_s") * number(line, "ms")) / number(line, "limit_ms") }));
  const x = rowsAxis(lines);
  const y = { field: "gmac_s", type: "quantitative", title: "GMAC/s" };
  page.chart(title, {
    lite: {
      height: 220,
      data: { values },
      layer: [
        {
          mark: { type: "line", point: true },
          encoding: {
            x,
            y,
            color: { field: "op", type: "nominal", title: null },
            tooltip: [{ field: "op" }, { field: "rows" }, ...["ms", "gmac_s", "gb_s", "percent_of_limit"].map((field) => ({ field, format: ".2f" })), { field: "limit" }],
          },
        },
        { mark: { type: "line", strokeDash: [4, 4], color: "#8a94a0" }, encoding: { x, y: { ...y, field: "roof", aggregate: "max" } } },
      ],
    },
  });
}
