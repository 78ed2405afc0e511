import { digits, groupBy, median, number, numberRows, settingsTable, text, type Line, type Report, type Summary } from "./data";
import { kPalette, kZoom } from "./chart";
import type { Page } from "./page";

/** Fewer trials than this make no point. */
const kFewest = 10;

/** A method has the same colour in every drawing; plain decoding is grey. */
function colorOf(methods: string[]): Record<string, unknown> {
  return { field: "method", type: "nominal", title: null, scale: { domain: methods, range: kPalette } };
}

function answered(report: Report): Line[] {
  return report.lines.filter((line) => "method" in line && !("error" in line) && (line.equal === true || line.claims_equal === false));
}

function closingOf(report: Report): Line {
  return report.lines.find((line) => "summary" in line) ?? {};
}

/** `talon bench spec`: drafters beside plain decoding. */
export function showSpec(page: Page, report: Report): void {
  const methods = report.methods ?? [];
  const lines = answered(report);
  const closing = closingOf(report);
  page.section("Overview");
  page.tables(report.tables, "overview");
  addGroups(page, "Temperatures", (closing.temperatures ?? {}) as Record<string, Summary>, methods);
  addGroups(page, "Speed-up by category", (closing.subtasks ?? {}) as Record<string, Summary>, methods);
  addPrice(page, (closing.summary ?? {}) as Summary, methods);
  addDepth(page, lines, methods);
  addTime(page, lines, methods);
  addCalibration(page, lines, methods);
  addChecks(page, lines);
  addQuestions(page, lines, methods);
  page.section("How it was measured");
  page.table(settingsTable({ ...(closing.machine as Line), ...(closing.settings as Line) }));
}

/** "1.38 [1.20, 1.51]" */
function withRange(summary: Summary, method: string): string {
  const { speedup, speedup_low: low, speedup_high: high } = summary[method] ?? {};
  const range = typeof low === "number" && low !== high ? ` [${digits(low, 2)}, ${digits(high, 2)}]` : "";
  return digits(speedup, 2) + range;
}

/** Speed-ups of the methods in groups of questions; nothing to say of a single group. */
function addGroups(page: Page, heading: string, groups: Record<string, Summary>, methods: string[]): void {
  const names = Object.keys(groups);
  if (names.length < 2) return;
  page.section(heading, "Tokens per second after the prefill, over plain decoding in the same run.");
  page.table({
    heading,
    note: "In brackets behind the name: how many answers of plain decoding count.",
    columns: ["method", ...names.map((name) => `${name || "(none)"} (${groups[name][methods[0]]?.counted ?? 0})`)],
    rows: methods.map((method) => [method, ...names.map((name) => withRange(groups[name], method))]),
  });
  const values = names.flatMap((name) =>
    methods.slice(1).map((method) => ({
      category: name || "(none)",
      method,
      speedup: groups[name][method]?.speedup,
      low: groups[name][method]?.speedup_low,
      high: groups[name][method]?.speedup_high,
    })),
  );
  if (values.length === 0) return;
  const place = { x: { field: "category", type: "nominal", title: null, axis: { labelAngle: -30 } }, xOffset: { field: "method", sort: methods } };
  const tooltip = ["category", "method", "speedup", "low", "high"].map((field) => ({ field, format: field === "category" || field === "method" ? undefined : ".2f" }));
  page.chart("Speed-up with 95 % intervals", {
    lite: {
      width: 780,
      data: { values },
      layer: [
        {
          mark: "bar",
          encoding: { ...place, y: { field: "speedup", type: "quantitative", title: "times plain decoding" }, color: colorOf(methods), tooltip },
        },
        { mark: { type: "rule" }, encoding: { ...place, y: { field: "low", type: "quantitative" }, y2: { field: "high" } } },
        { mark: { type: "rule", strokeDash: [4, 3] }, encoding: { y: { datum: 1 } } },
      ],
    },
  });
}

/** What a round costs in plain steps against what it brings. */
function addPrice(page: Page, summary: Summary, methods: string[]): void {
  const points = methods.flatMap((method) => {
    const { tau, tau_low, tau_high, speedup } = summary[method] ?? {};
    if (typeof tau !== "number" || typeof speedup !== "number" || !(speedup > 0)) return [];
    return [{ method, tau, tau_low, tau_high, speedup, added: Math.max(0, tau / speedup - 1) }];
  });
  if (points.length < 2) return;
  const mostX = Math.max(0.5, ...points.map((point) => point.added * 1.15));
  const mostY = Math.max(2, ...points.map((point) => point.tau * 1.1));
  const guides = [1, 1.5, 2, 3, 4]
    .filter((speedup) => speedup <= mostY)
    .flatMap((speedup) => [0, mostX].map((x) => ({ guide: `${speedup}x`, added: x, tau: speedup * (1 + x) })));
  const x = { field: "added", type: "quantitative", title: "what drafting and checking more rows add to a round, in plain steps", scale: { domain: [0, mostX] } };
  const y = { field: "tau", type: "quantitative", title: "tau, tokens per check", scale: { domain: [1, mostY] } };
  page.section(
    "What drafting costs and brings",
    "A method's speed-up is tau over the time of a round in plain steps. Dashed: equal speed-up; below 1x drafting loses time.",
  );
  page.chart("Tokens per check against the price of drafting", {
    lite: {
      layer: [
        { data: { values: guides }, mark: { type: "line", strokeDash: [4, 4], color: "#8a94a0", clip: true }, encoding: { x, y, detail: { field: "guide" } } },
        {
          data: { values: guides.filter((guide) => guide.added > 0) },
          mark: { type: "text", align: "right", dy: -6, clip: true },
          encoding: { x, y, text: { field: "guide" } },
        },
        { data: { values: points }, mark: "rule", encoding: { x, y: { ...y, field: "tau_low" }, y2: { field: "tau_high" }, color: colorOf(methods) } },
        {
          data: { values: points },
          mark: { type: "point", filled: true, size: 90 },
          encoding: { x, y, color: colorOf(methods), tooltip: ["method", "tau", "speedup", "added"].map((field) => ({ field, format: field === "method" ? undefined : ".2f" })) },
        },
      ],
    },
  });
}

function addDepth(page: Page, lines: Line[], methods: string[]): void {
  const values: object[] = [];
  for (const [method, group] of groupBy(lines, (line) => text(line, "method"))) {
    const sums: [number, number][] = [];
    for (const line of group) {
      numberRows(line, "depth").forEach(([tried, right], depth) => {
        const sum = (sums[depth] ??= [0, 0]);
        sum[0] += tried;
        sum[1] += right;
      });
    }
    for (const [depth, [tried, right]] of sums.entries()) {
      if (tried < kFewest) break;
      values.push({ method, depth: depth + 1, rate: right / tried, of: `${right} of ${tried}` });
    }
  }
  if (values.length === 0) return;
  page.section(
    "Acceptance by depth",
    "Of the checks in which the text followed the tree so far and the tree went on: how many found the next token in it.",
  );
  page.chart("Chance that the text stays in the tree", {
    lite: {
      data: { values },
      mark: { type: "line", point: true },
      encoding: {
        x: { field: "depth", type: "quantitative", title: "depth in the tree", axis: { tickMinStep: 1 }, scale: { domainMin: 1, nice: false } },
        y: { field: "rate", type: "quantitative", title: "share", scale: { domain: [0, 1] } },
        color: colorOf(methods),
        tooltip: [{ field: "method" }, { field: "depth" }, { field: "rate", format: ".3f" }, { field: "of" }],
      },
    },
  });
}

/** How often each answer was given: rounds are summed over repeats, times are means of them. */
function repeats(lines: Line[]): number {
  return Math.max(...lines.map((line) => (Array.isArray(line.tok_s_repeats) ? line.tok_s_repeats.length : 1)));
}

function addTime(page: Page, lines: Line[], methods: string[]): void {
  const values: object[] = [];
  const rows: string[][] = [];
  for (const [method, group] of groupBy(lines, (line) => text(line, "method"))) {
    const sum = (key: string) => group.reduce((total, line) => total + number(line, key), 0);
    const tokens = group.reduce((total, line) => total + (number(line, "tok_s") * number(line, "decode_ms")) / 1000, 0);
    if (!(tokens > 0)) continue;
    const draft = sum("draft_ms");
    const check = sum("check_ms");
    const all = sum("decode_ms");
    const parts = { draft, check, other: Math.max(0, all - draft - check) };
    for (const [part, ms] of Object.entries(parts)) values.push({ method, part, ms: ms / tokens });
    const rounds = sum("rounds") / Math.max(1, repeats(group));
    const each = [all, draft, check, parts.other].map((ms) => digits(ms / tokens, 2));
    const perRound = [draft, check].map((ms) => (rounds > 0 ? digits(ms / rounds, 2) : "–"));
    rows.push([method, ...each, ...perRound, digits((1000 * sum("prompt_tokens")) / sum("prefill_ms"), 0)]);
  }
  page.section("Where the time goes");
  page.table({
    heading: "",
    note: "",
    columns: ["method", "ms per token", "draft", "check", "other", "ms per draft", "ms per check", "prefill tok/s"],
    rows,
  });
  if (values.length === 0) return;
  page.chart("Milliseconds per token after the prefill", {
    lite: {
      height: { step: 26 },
      data: { values },
      mark: "bar",
      encoding: {
        y: { field: "method", type: "nominal", sort: methods, title: null, axis: { labelLimit: 320 } },
        x: { field: "ms", type: "quantitative", title: "ms per token", stack: true },
        color: { field: "part", type: "nominal", title: null, sort: ["draft", "check", "other"] },
        tooltip: [{ field: "method" }, { field: "part" }, { field: "ms", format: ".2f" }],
      },
    },
  });
}

/** Trials by what the drafter promised; bars are 95 % intervals. */
function addCalibration(page: Page, lines: Line[], methods: string[]): void {
  const values: object[] = [];
  for (const [method, group] of groupBy(lines, (line) => text(line, "method"))) {
    const buckets: [number, number, number][] = [];
    for (const line of group) {
      numberRows(line, "calibration").forEach((bucket, i) => {
        const sum = (buckets[i] ??= [0, 0, 0]);
        bucket.forEach((value, k) => (sum[k] += value));
      });
    }
    for (const [trials, right, predicted] of buckets.filter((bucket) => bucket && bucket[0] >= kFewest)) {
      const rate = right / trials;
      const error = 1.96 * Math.sqrt((rate * (1 - rate)) / trials);
      values.push({ method, predicted: predicted / trials, rate, low: Math.max(0, rate - error), high: Math.min(1, rate + error), trials });
    }
  }
  if (values.length === 0) return;
  page.section(
    "Calibration",
    "Every checked node whose parent was right is a trial. Below the dashed line the drafter is too sure, above it too modest.",
  );
  page.chart("Predicted and observed acceptance", reliability(values, colorOf(methods), ["method", "predicted", "rate", "trials"]));
}

/** A reliability diagram of points with predicted, rate, low and high. */
export function reliability(values: object[], color: Record<string, unknown>, fields: string[]): { lite: Record<string, unknown> } {
  const x = { field: "predicted", type: "quantitative", title: "the drafter's chance that a token follows", scale: { domain: [0, 1] } };
  const y = { field: "rate", type: "quantitative", title: "how often it did", scale: { domain: [0, 1] } };
  const tooltip = fields.map((field) => ({ field, format: field === "predicted" || field === "rate" ? ".3f" : undefined }));
  return {
    lite: {
      width: 420,
      height: 360,
      data: { values },
      layer: [
        {
          data: { values: [0, 1].map((value) => ({ predicted: value, rate: value })) },
          mark: { type: "line", strokeDash: [4, 4], color: "#8a94a0" },
          encoding: { x, y },
        },
        { mark: "rule", encoding: { x, y: { ...y, field: "low" }, y2: { field: "high" }, color } },
        { mark: { type: "line", point: true }, encoding: { x, y, color, tooltip } },
      ],
    },
  };
}

function addChecks(page: Page, lines: Line[]): void {
  const ms = new Map<number, number[]>();
  for (const line of lines) {
    for (const [rows, count, value] of numberRows(line, "checks")) {
      ms.set(rows, [...(ms.get(rows) ?? []), ...Array<number>(count).fill(value)]);
    }
  }
  const rows = [...ms].filter(([, values]) => values.length >= kFewest).sort(([a], [b]) => a - b);
  if (rows.length < 2) return;
  const first = median(rows[0][1]);
  const values = rows.map(([count, times]) => ({ rows: count, price: median(times) / first, ms: median(times), checks: times.length }));
  page.section(
    "The price of rows",
    "Medians of the checks of this run, of all methods. talon bench cost measures the curve by itself, beside the machine's limits.",
  );
  page.chart("c(n): the price of a check of n rows", {
    lite: {
      data: { values },
      mark: { type: "line", point: true },
      encoding: {
        x: { field: "rows", type: "quantitative", title: "rows (the root and the draft nodes)", scale: { type: "log", base: 2 } },
        y: { field: "price", type: "quantitative", title: `times a check of ${rows[0][0]} row${rows[0][0] === 1 ? "" : "s"}` },
        tooltip: [{ field: "rows" }, { field: "price", format: ".2f" }, { field: "ms", format: ".2f" }, { field: "checks" }],
      },
    },
  });
}

function addQuestions(page: Page, lines: Line[], methods: string[]): void {
  const condition = (line: Line) => ["question_id", "category", "temperature", "seed"].map((key) => text(line, key)).join("\n");
  const plain = new Map(lines.filter((line) => line.method === methods[0]).map((line) => [condition(line), number(line, "tok_s")]));
  const values = lines.flatMap((line) => {
    const beside = plain.get(condition(line)) ?? 0;
    if (line.method === methods[0] || !(beside > 0)) return [];
    return [{ method: line.method, question: text(line, "question_id"), category: line.category, tau: line.tau, speedup: number(line, "tok_s") / beside }];
  });
  if (values.length === 0) return;
  page.section("Every question", "One mark per question and method: rest the pointer on it for its name; the wheel zooms.");
  page.chart("Speed-up and tau of every question", {
    lite: {
      params: [kZoom],
      data: { values },
      mark: { type: "point", filled: true, opacity: 0.6 },
      encoding: {
        x: { field: "tau", type: "quantitative", title: "tau, tokens per check", scale: { zero: false } },
        y: { field: "speedup", type: "quantitative", title: "speed-up over plain decoding", scale: { zero: false } },
        color: colorOf(methods),
        tooltip: [{ field: "method" }, { field: "question" }, { field: "category" }, { field: "tau", format: ".2f" }, { field: "speedup", format: ".2f" }],
      },
    },
  });
}
