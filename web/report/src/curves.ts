import { number, type Line, type Report } from "./data";
import { kZoom } from "./chart";
import type { Page } from "./page";

/** Columns that say when a row was written. */
const kMoments = new Set(["iteration", "pairs", "seconds", "epoch"]);

/** `talon train head`: every column over the number of trained pairs; loss_1, loss_2, ... share a drawing. */
export function showCurves(page: Page, report: Report): void {
  for (const { name, lines } of report.files ?? []) {
    if (lines.length === 0) continue;
    page.section(name);
    const groups = new Map<string, string[]>();
    for (const column of Object.keys(lines[0]).filter((key) => !kMoments.has(key))) {
      const group = column.replace(/_?[0-9]+$/, "");
      groups.set(group, [...(groups.get(group) ?? []), column]);
    }
    for (const [group, columns] of groups) addCurves(page, group, columns, lines);
  }
}

function addCurves(page: Page, title: string, columns: string[], lines: Line[]): void {
  const values = lines.flatMap((line) =>
    columns.flatMap((column) => {
      const value = number(line, column);
      return Number.isFinite(value) ? [{ pairs: number(line, "pairs"), column, value }] : [];
    }),
  );
  if (values.length === 0) return;
  page.chart(title, {
    lite: {
      height: 220,
      params: [kZoom],
      data: { values },
      mark: { type: "line", point: lines.length < 40 },
      encoding: {
        x: { field: "pairs", type: "quantitative", title: "trained pairs", axis: { format: "~s" } },
        y: { field: "value", type: "quantitative", title: null, scale: { zero: false } },
        color: { field: "column", type: "nominal", title: null, sort: columns },
        tooltip: [{ field: "column" }, { field: "pairs", format: "," }, { field: "value", format: ".4g" }],
      },
    },
  });
}
