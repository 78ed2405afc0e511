import { number, text, type Line, type Report } from "./data";
import type { Page } from "./page";

/** What may be paid for speed: the nearer to 0 the better. */
const kPrices: [key: string, title: string][] = [
  ["distortion", "metered distortion, a code"],
  ["surprise", "surprise, nats"],
  ["fd_first", "distance of features to what was drawn plainly (FD)"],
  ["fd", "distance of features to held-out pictures (FD)"],
];
const kTooltip = ["name", "steps_compression", "tau", "speedup", "equal", "distortion", "surprise", "fd", "fd_first", "both"];

/** `talon bench image` and `talon train image compare`: what each way to draw brings, and what it costs. */
export function showPictures(page: Page, report: Report): void {
  const drawn = report.lines.filter((line) => "steps_compression" in line).map(named);
  if (drawn.length > 0) {
    page.section("Speed");
    addSpeed(page, drawn);
    page.tables(report.tables, "drawn");
    page.section("Speed and what it costs", "To the right and near 0 is better. The line joins what nothing else is better than in both.");
    for (const [key, title] of kPrices) addPrice(page, drawn, key, title);
  }
  if (!report.tables.some((table) => table.heading === "compared")) return;
  page.section("Pictures");
  page.tables(report.tables, "compared");
}

/** Rules are lossless unless they change codes; the drafter's name is what stands before its options. */
function named(line: Line): Line {
  const method = text(line, "method");
  return { ...line, drafter: method.replace(/[:@].*/, ""), exact: number(line, "equal") === 1 ? "same pictures" : "other pictures" };
}

const shape = { field: "exact", type: "nominal", title: null, sort: ["same pictures", "other pictures"] };
const color = { field: "drafter", type: "nominal", title: null, sort: null };
const tooltip = kTooltip.map((field) => ({ field, format: field === "name" ? undefined : ".4~g" }));

function addSpeed(page: Page, values: Line[]): void {
  page.chart("Times plain drawing: median, and the worst picture", {
    lite: {
      height: { step: 20 },
      data: { values },
      encoding: { y: { field: "name", type: "nominal", title: null, sort: null, axis: { labelLimit: 420 } }, color },
      layer: [
        { mark: "rule", encoding: { x: { field: "worst", type: "quantitative", title: "times plain drawing", scale: { zero: false } }, x2: { field: "speedup" } } },
        { mark: { type: "point", filled: true, size: 60 }, encoding: { tooltip, shape, x: { field: "speedup", type: "quantitative" } } },
      ],
    },
  });
}

function addPrice(page: Page, lines: Line[], key: string, title: string): void {
  const values = lines.filter((line) => Number.isFinite(number(line, key)));
  if (values.length < 2) return;
  const x = { field: "steps_compression", type: "quantitative", title: "codes a forward", scale: { zero: false } };
  const y = { field: key, type: "quantitative", title };
  page.chart(title[0].toUpperCase() + title.slice(1), {
    lite: {
      height: 340,
      layer: [
        { data: { values: frontOf(values, key) }, mark: { type: "line", strokeDash: [4, 3], color: "#8a94a0" }, encoding: { x, y, order: { field: "steps_compression" } } },
        { data: { values }, mark: { type: "point", filled: true, size: 80 }, encoding: { x, y, color, shape, tooltip } },
      ],
    },
  });
}

/** Lines that no other beats in steps and in the size of the price: surprise has a sign. */
function frontOf(lines: Line[], price: string): Line[] {
  const better = (a: Line, b: Line): boolean => {
    const steps = number(a, "steps_compression") - number(b, "steps_compression");
    const saved = Math.abs(number(b, price)) - Math.abs(number(a, price));
    return steps >= 0 && saved >= 0 && steps + saved > 0;
  };
  return lines.filter((line) => !lines.some((other) => better(other, line)));
}
