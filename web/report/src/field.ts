import { number, text, type Line, type Report } from "./data";
import type { Page } from "./page";

/** `talon bench field`: all methods on all models beside each other. */
export function showField(page: Page, report: Report): void {
  const lines = report.lines.slice(0, -1).map(named);
  const all = lines.filter((line) => line.questions === "all");
  page.section("Speed-up");
  addSpeed(page, all);
  page.tables(report.tables, "overview");
  page.section("What a round takes", "A method is fast where its checks bring many tokens and its drafts cost little: up and to the left.");
  addTimes(page, all);
  page.tables(report.tables, "times");
  if (!report.tables.some((table) => table.heading === "subtasks")) return;
  page.section("Kinds of questions");
  addKinds(page, lines.filter((line) => line.questions !== "all"));
  page.tables(report.tables, "subtasks");
}

function named(line: Line): Line {
  return { ...line, where: `${text(line, "model")}, T ${text(line, "temperature")}`, share: number(line, "draft_each_ms") / number(line, "pass_ms") };
}

const tooltip = ["method", "where", "speedup", "speedup_low", "speedup_high", "worst", "tau", "draft_each_ms", "check_each_ms", "pass_ms"].map((field) => ({
  field,
  format: field === "method" || field === "where" ? undefined : ".4~g",
}));
const method = { field: "method", type: "nominal", title: null, sort: null };
const color = { field: "where", type: "nominal", title: null, sort: null };

function addSpeed(page: Page, values: Line[]): void {
  const offset = { yOffset: { field: "where", sort: null } };
  page.chart("Times plain decoding, with 95 % intervals over questions", {
    lite: {
      height: { step: 14 },
      data: { values },
      encoding: { y: method, color, ...offset },
      layer: [
        { mark: "rule", encoding: { x: { field: "speedup_low", type: "quantitative", title: "times plain decoding", scale: { zero: false } }, x2: { field: "speedup_high" } } },
        { mark: { type: "point", filled: true, size: 50 }, encoding: { tooltip, x: { field: "speedup", type: "quantitative" } } },
      ],
    },
  });
}

function addTimes(page: Page, values: Line[]): void {
  page.chart("Tokens per check over the time of a draft, in passes of the target", {
    lite: {
      height: 360,
      data: { values },
      mark: { type: "point", filled: true, size: 70 },
      encoding: {
        tooltip,
        color,
        x: { field: "share", type: "quantitative", title: "draft, in passes of one token" },
        y: { field: "tau", type: "quantitative", title: "tau", scale: { zero: false } },
      },
    },
  });
}

function addKinds(page: Page, values: Line[]): void {
  page.chart("Times plain decoding by kind of question", {
    lite: {
      height: { step: 16 },
      width: 300,
      data: { values },
      mark: "rect",
      encoding: {
        tooltip: [...tooltip, { field: "questions" }],
        y: method,
        x: { field: "questions", type: "nominal", title: null, sort: null },
        color: { field: "speedup", type: "quantitative", title: "times", scale: { scheme: "blues" } },
        column: { field: "where", type: "nominal", title: null, sort: null },
      },
    },
  });
}
