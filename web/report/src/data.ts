// What talon writes into the page; src/report/report.h says the same.

export type Line = Record<string, unknown>;

export interface Table {
  heading: string;
  note: string;
  columns: string[];
  rows: string[][];
}

/** A method's numbers, as in the "summary" of `talon bench spec`. Null where nothing counts. */
export type Summary = Record<string, Record<string, number | boolean | null>>;

export interface Report {
  kind: string;
  title: string;
  subtitle: string;
  notes: string[];
  tables: Table[];
  /** The JSON lines of the command, the closing line among them. */
  lines: Line[];
  /** spec: plain decoding first. */
  methods?: string[];
  /** tree: lines of the trace whose trees are drawn, and what its first line says. */
  trees?: Line[];
  about?: Line;
  /** curves: each file's rows as lines. */
  files?: { name: string; lines: Line[] }[];
}

/** The report in the page. Throws an error that says what is wrong with it. */
export function readReport(text: string): Report {
  const data: unknown = JSON.parse(text);
  if (data === null) throw new Error("this page holds no data: talon writes them into it");
  if (typeof data !== "object") throw new Error("expected an object");
  const report = data as Partial<Report>;
  for (const key of ["kind", "title", "subtitle"] as const) {
    if (typeof report[key] !== "string") throw new Error(`expected a text as "${key}"`);
  }
  for (const key of ["notes", "tables", "lines"] as const) {
    if (!Array.isArray(report[key])) throw new Error(`expected a list as "${key}"`);
  }
  return report as Report;
}

/** Names and values as a table; what is nested is left out. */
export function settingsTable(settings: Line): Table {
  const rows = Object.entries(settings)
    .filter(([, value]) => typeof value !== "object")
    .map(([name, value]) => [name, String(value)]);
  return { heading: "", note: "", columns: ["setting", "value"], rows };
}

/** "1.38", or a dash for what is no number. */
export function digits(value: unknown, count: number): string {
  return typeof value === "number" && Number.isFinite(value) ? value.toFixed(count) : "–";
}

export function number(line: Line, key: string): number {
  const value = line[key];
  return typeof value === "number" ? value : NaN;
}

export function text(line: Line, key: string): string {
  const value = line[key];
  return typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
}

/** Lists of numbers, such as [[trials, right], ...]. */
export function numberRows(line: Line, key: string): number[][] {
  const value = line[key];
  return Array.isArray(value) ? (value as number[][]) : [];
}

/** Lines by what `key` gives, in the order of first appearance. */
export function groupBy<T>(items: T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const name = key(item);
    const group = groups.get(name);
    if (group) group.push(item);
    else groups.set(name, [item]);
  }
  return groups;
}

export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
