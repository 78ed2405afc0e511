import { groupBy, number, text, type Report } from "./data";
import type { Page } from "./page";
import { reliability } from "./spec";

/** `talon bench calibration`: whether a drafter's chances come true, before and after correction. */
export function showCalibration(page: Page, report: Report): void {
  page.section(
    "Errors",
    "Checked nodes whose parent became text. Error: how far the share of right nodes lies from what their bucket of chances promised, averaged over nodes.",
  );
  page.tables(report.tables, "numbers");
  page.section("Reliability", "On the diagonal a node comes true as often as it was believed. Bars are 95 % intervals.");
  const lines = report.lines.filter((line) => "stage" in line);
  for (const [depth, group] of groupBy(lines, (line) => text(line, "depth"))) {
    const values = group.map((line) => {
      const trials = number(line, "trials");
      const rate = number(line, "right") / trials;
      const error = 1.96 * Math.sqrt((rate * (1 - rate)) / trials);
      return {
        stage: text(line, "stage"),
        predicted: number(line, "predicted") / trials,
        rate,
        low: Math.max(0, rate - error),
        high: Math.min(1, rate + error),
        trials,
      };
    });
    const color = { field: "stage", type: "nominal", title: null, sort: ["before", "after"] };
    page.chart(depth === "0" ? "All depths" : `Depth ${depth}`, reliability(values, color, ["stage", "predicted", "rate", "trials"]));
  }
}
