import { number, text, type Line, type Report } from "./data";
import type { Page } from "./page";

function times(line: Line, key: string, kind: string): number {
  const value = line[key] as Record<string, number> | undefined;
  return value?.[kind] ?? NaN;
}

/** `talon bench load`: servers beside each other at each level of load. */
export function showLoad(page: Page, report: Report): void {
  const closing = report.lines.at(-1) as Line;
  const results = (closing.summary ?? []) as Line[];
  page.section("Levels");
  addCharts(page, results, "concurrency", "requests at once");
  addCharts(page, results, "rate", "requests a second");
  page.section("Numbers");
  page.tables(report.tables, "numbers");
}

function addCharts(page: Page, results: Line[], key: string, title: string): void {
  const lines = results.filter((line) => key in line);
  if (lines.length === 0) return;
  const levels = [...new Set(lines.map((line) => number(line, key)))].sort((a, b) => a - b);
  const x = { field: key, type: "quantitative", title, scale: { type: "log", base: 2, nice: false }, axis: { values: levels, format: "~g" } };
  const color = { field: "server", type: "nominal", title: null, sort: null };
  const values = lines.map((line) => ({
    ...line,
    level: text(line, "level"),
    first: times(line, "first_ms", "median"),
    gap: times(line, "gap_ms", "median"),
    gap99: times(line, "gap_ms", "p99"),
    worst: times(line, "gap_ms", "worst"),
  }));
  const tooltip = ["server", "level", "tok_s", "times_first", "first", "gap", "gap99", "worst"].map((field) => ({ field, format: field === "server" || field === "level" ? undefined : ".4~g" }));
  const line = { type: "line", point: true };
  page.chart("Tokens a second, all answers together, with their spread over slices", {
    lite: {
      data: { values },
      layer: [
        { mark: "rule", encoding: { x, color, y: { field: "tok_s_least", type: "quantitative" }, y2: { field: "tok_s_most" } } },
        { mark: line, encoding: { x, color, tooltip, y: { field: "tok_s", type: "quantitative", title: "tok/s" } } },
      ],
    },
  });
  page.chart("Milliseconds to the first text, median", {
    lite: { height: 220, data: { values }, mark: line, encoding: { x, color, tooltip, y: { field: "first", type: "quantitative", title: "ms" } } },
  });
  page.chart("Milliseconds between pieces of text: median; dashed 99 %; dots the worst", {
    lite: {
      height: 260,
      data: { values },
      layer: [
        { mark: line, encoding: { x, color, tooltip, y: { field: "gap", type: "quantitative", title: "ms", scale: { type: "log" } } } },
        { mark: { type: "line", strokeDash: [4, 4] }, encoding: { x, color, y: { field: "gap99", type: "quantitative" } } },
        { mark: { type: "point", filled: true, size: 40 }, encoding: { x, color, tooltip, y: { field: "worst", type: "quantitative" } } },
      ],
    },
  });
}
