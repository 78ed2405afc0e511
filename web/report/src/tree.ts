import type { Spec } from "vega";
import { colors, kZoom } from "./chart";
import { digits, number, settingsTable, text, type Line, type Report } from "./data";
import type { Page } from "./page";

/** A line of a trace (src/trace/trace.h). */
interface Round {
  sequence: number;
  round: number;
  token: number[];
  parent: number[];
  log_p: number[];
  text?: string[];
  accepted: number[];
}

/** `talon bench tree`: what the rounds of a trace add up to, and some of their trees. */
export function showTree(page: Page, report: Report): void {
  const lines = report.lines.filter((line) => "round" in line);
  page.section("Overview");
  addSums(page, lines);
  page.table(settingsTable(report.about ?? {}));
  page.section("Accepted length");
  addAccepted(page, lines);
  page.section("Time");
  addTime(page, lines);
  page.section(
    "Trees",
    "The root is the newest token of the text. Rest the pointer on a node for the drafter's chance of its path. Accepted nodes are filled.",
  );
  for (const tree of report.trees ?? []) addTree(page, tree as unknown as Round);
}

function addSums(page: Page, lines: Line[]): void {
  const mean = (key: string) => lines.reduce((sum, line) => sum + number(line, key), 0) / Math.max(1, lines.length);
  const ms = (line: Line) => ["draft_ms", "check_ms", "other_ms"].reduce((sum, key) => sum + number(line, key), 0) / number(line, "sequences");
  page.table({
    heading: "",
    note: "",
    columns: ["of all rounds", ""],
    rows: [
      ["rounds", String(lines.length)],
      ["tokens per check (tau)", digits(1 + mean("accepted"), 2)],
      ["draft nodes per check", digits(mean("drafted"), 1)],
      ["of these accepted", digits(mean("accepted"), 2)],
      ["milliseconds per round", digits(lines.reduce((sum, line) => sum + ms(line), 0) / Math.max(1, lines.length), 2)],
    ],
  });
}

function addAccepted(page: Page, lines: Line[]): void {
  const values = lines.map((line) => ({ ...line, sequence: `sequence ${text(line, "sequence")}` }));
  const color = { field: "sequence", type: "nominal", title: null };
  page.chart("Draft nodes accepted along the text", {
    lite: {
      height: 200,
      params: [kZoom],
      data: { values },
      mark: { type: "point", filled: true },
      encoding: {
        x: { field: "position", type: "quantitative", title: "position of the root", scale: { zero: false } },
        y: { field: "accepted", type: "quantitative", title: "accepted", axis: { tickMinStep: 1 } },
        color,
        tooltip: ["sequence", "round", "position", "accepted"].map((field) => ({ field })),
      },
    },
  });
  page.chart("How many rounds accepted how much", {
    lite: {
      height: 200,
      data: { values },
      mark: "bar",
      encoding: {
        x: { field: "accepted", type: "ordinal", title: "draft nodes accepted", axis: { labelAngle: 0 } },
        y: { aggregate: "count", title: "rounds" },
        tooltip: [{ field: "accepted" }, { aggregate: "count", title: "rounds" }],
      },
    },
  });
}

function addTime(page: Page, lines: Line[]): void {
  const values = lines.flatMap((line) =>
    ["draft", "check", "other"].map((part) => ({
      part,
      round: text(line, "round"),
      position: number(line, "position"),
      // Rounds of several sequences tell the shared time once for each.
      ms: number(line, `${part}_ms`) / Math.max(1, number(line, "sequences")),
    })),
  );
  const color = { field: "part", type: "nominal", title: null, sort: ["draft", "check", "other"] };
  page.chart("Milliseconds of all rounds", {
    lite: {
      height: 40,
      data: { values },
      mark: "bar",
      encoding: { x: { field: "ms", aggregate: "sum", title: "ms" }, color, tooltip: [{ field: "part" }, { field: "ms", aggregate: "sum", format: ".1f" }] },
    },
  });
  page.chart("Milliseconds of each round", {
    lite: {
      height: 200,
      params: [kZoom],
      data: { values },
      mark: { type: "point", filled: true, size: 20 },
      encoding: {
        x: { field: "position", type: "quantitative", title: "position of the root", scale: { zero: false } },
        y: { field: "ms", type: "quantitative", title: "ms" },
        color,
        tooltip: [{ field: "part" }, { field: "round" }, { field: "ms", format: ".2f" }],
      },
    },
  });
}

function addTree(page: Page, round: Round): void {
  const accepted = new Set(round.accepted);
  const hasChild = new Set(round.parent);
  const leaves = round.token.filter((_, node) => !hasChild.has(node)).length;
  const nodes = round.token.map((token, node) => ({
    node,
    parent: node === 0 ? null : round.parent[node],
    label: round.text ? JSON.stringify(round.text[node]).slice(1, -1) : String(token),
    token,
    chance: Math.exp(round.log_p[node]),
    accepted: accepted.has(node),
  }));
  const depth = (node: number): number => (node === 0 ? 0 : 1 + depth(round.parent[node]));
  const levels = Math.max(...nodes.map(({ node }) => depth(node)));
  page.chart(
    `Round ${round.round} of sequence ${round.sequence}: ${round.token.length - 1} drafted, ${round.accepted.length - 1} accepted`,
    { vega: treeSpec(nodes, Math.max(1, levels) * 105, Math.max(1, leaves) * 20) },
  );
}

function treeSpec(nodes: object[], width: number, height: number): Spec {
  const { text: ink, accepted, node } = colors();
  return {
    width,
    height,
    padding: { left: 20, right: 110, top: 10, bottom: 10 },
    data: [
      {
        name: "tree",
        values: nodes,
        transform: [
          { type: "stratify", key: "node", parentKey: "parent" },
          { type: "tree", method: "tidy", size: [{ signal: "height" }, { signal: "width" }], as: ["y", "x", "depth", "children"] },
        ],
      },
      {
        name: "links",
        source: "tree",
        transform: [{ type: "treelinks" }, { type: "linkpath", orient: "horizontal", shape: "diagonal" }],
      },
    ],
    marks: [
      {
        type: "path",
        from: { data: "links" },
        encode: {
          enter: {
            path: { field: "path" },
            stroke: { signal: "datum.target.accepted ? '#1a9850' : '#8a94a0'" },
            strokeWidth: { signal: "0.6 + 2.4 * sqrt(datum.target.chance)" },
          },
        },
      },
      {
        name: "labels",
        type: "text",
        zindex: 1,
        from: { data: "tree" },
        encode: {
          enter: {
            x: { field: "x", offset: 4 },
            y: { field: "y" },
            text: { field: "label" },
            limit: { value: 96 },
            baseline: { value: "middle" },
            font: { value: "ui-monospace, monospace" },
            fontSize: { value: 11 },
            fill: { value: ink },
            tooltip: {
              signal: "{token: datum.token, text: datum.label, 'chance of the path': format(datum.chance, '.1%'), accepted: datum.accepted}",
            },
          },
        },
      },
      {
        type: "rect",
        from: { data: "labels" },
        encode: {
          enter: {
            x: { field: "bounds.x1", offset: -4 },
            x2: { field: "bounds.x2", offset: 4 },
            y: { field: "bounds.y1", offset: -1 },
            y2: { field: "bounds.y2", offset: 1 },
            cornerRadius: { value: 3 },
            fill: { signal: `datum.datum.accepted ? '${accepted}' : '${node}'` },
            stroke: { signal: "datum.datum.accepted ? '#1a9850' : '#8a94a0'" },
          },
        },
      },
    ],
  };
}
