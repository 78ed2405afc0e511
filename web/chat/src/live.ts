import { getJson, RequestError } from "./api";
import { h, iconButton, svg } from "./dom";

interface Step {
  prompt_rows: number;
  text_rows: number;
  draft_rows: number;
  most_rows: number;
}

interface Running {
  id: number;
  seconds: number;
  prompt_tokens: number;
  answer_tokens: number;
  drafted: number;
  accepted: number;
}

interface Load {
  model: string;
  running: number;
  waiting: number;
  kv_cache_usage: number;
  answer_tokens: number;
  last_step: Step;
  answers: Running[];
}

const everyMs = 400;
const kept = 90; // rates that are drawn
const mostCells = 96;

/** What the server does at the moment: answers, rows of its last step, tokens a second. */
export class LivePanel {
  readonly element = h("aside", { class: "live", "aria-label": "The server at work", hidden: true });
  private readonly body = h("div", {});
  private readonly rates = new Map<string, number[]>();
  private before: { at: number; loads: Load[] } | null = null;
  private timer = 0;
  private opener: Element | null = null;

  constructor() {
    const close = iconButton("close", "Close", () => this.toggle(false));
    this.element.append(h("header", {}, h("h2", {}, "At work"), close), this.body);
  }

  toggle(isOpen = this.element.hidden): void {
    const isInside = this.element.contains(document.activeElement);
    this.element.hidden = !isOpen;
    if (isOpen) this.opener = document.activeElement;
    else if (isInside && this.opener instanceof HTMLElement) this.opener.focus();
    document.body.classList.toggle("live-open", isOpen);
    clearTimeout(this.timer);
    if (isOpen) void this.look();
  }

  private async look(): Promise<void> {
    if (this.element.hidden) return;
    if (!document.hidden) await this.ask();
    clearTimeout(this.timer); // of one who looked at the same time
    this.timer = window.setTimeout(() => void this.look(), everyMs);
  }

  private async ask(): Promise<void> {
    try {
      const { models } = await getJson<{ models: Load[] }>("/v1/load");
      const at = performance.now();
      for (const load of models) this.note(load, at);
      this.before = { at, loads: models };
      this.body.replaceChildren(...models.map((load) => this.model(load, models.length > 1)));
    } catch (error) {
      this.before = null;
      const words = error instanceof RequestError ? error.message : String(error);
      this.body.replaceChildren(h("p", { class: "note" }, `Nothing to be seen: ${words}`));
    }
  }

  private note(load: Load, at: number): void {
    const rates = this.rates.get(load.model) ?? [];
    this.rates.set(load.model, rates);
    const earlier = this.before?.loads.find((each) => each.model === load.model);
    if (!this.before || !earlier) return;
    rates.push(Math.max(0, (1000 * (load.answer_tokens - earlier.answer_tokens)) / (at - this.before.at)));
    if (rates.length > kept) rates.shift();
  }

  private model(load: Load, isNamed: boolean): HTMLElement {
    const rates = this.rates.get(load.model) ?? [];
    return h(
      "section",
      {},
      isNamed ? h("h3", {}, load.model) : null,
      h(
        "dl",
        { class: "numbers" },
        number("tokens/s", Math.round(rates.at(-1) ?? 0)),
        number("running", load.running),
        number("waiting", load.waiting),
        number("cache", `${Math.round(100 * load.kv_cache_usage)} %`),
      ),
      sparkline(rates),
      rowBudget(load.last_step),
      answerTable(load.answers),
    );
  }
}

function number(name: string, value: number | string): HTMLElement {
  return h("div", {}, h("dd", {}, String(value)), h("dt", {}, name));
}

function sparkline(rates: number[]): HTMLElement {
  const most = Math.max(50, ...rates);
  const x = (i: number) => (i + kept - rates.length) * (300 / (kept - 1));
  const y = (rate: number) => 46 - (42 * rate) / most;
  const points = rates.map((rate, i) => `${x(i).toFixed(1)} ${y(rate).toFixed(1)}`);
  const line = points.length > 1 ? `M${points.join("L")}` : "";
  const area = line ? `${line}L300 48L${x(0).toFixed(1)} 48Z` : "";
  const box = h("div", { class: "spark" });
  box.append(
    svg(
      "svg",
      { viewBox: "0 0 300 48", preserveAspectRatio: "none", role: "img", "aria-label": `tokens a second, at most ${Math.round(most)}` },
      svg("path", { d: area, class: "area" }),
      svg("path", { d: line, class: "line" }),
    ),
  );
  return box;
}

/** The rows of one step, a cell each. */
function rowBudget(step: Step): HTMLElement {
  const kinds: [string, number, string][] = [
    ["prompt", step.prompt_rows, "read"],
    ["text", step.text_rows, "written"],
    ["draft", step.draft_rows, "guessed"],
  ];
  const rows = step.prompt_rows + step.text_rows + step.draft_rows;
  const scale = Math.max(1, rows / mostCells);
  const cells = kinds.flatMap(([kind, count]) => Array.from({ length: Math.ceil(count / scale) }, () => h("i", { class: kind })));
  const words = kinds.map(([kind, count, name]) => h("span", {}, h("i", { class: kind }), `${count} ${name}`));
  return h(
    "div",
    { class: "rows" },
    h("h3", {}, "Rows of the last step", h("small", {}, `${rows} of at most ${step.most_rows}`)),
    h("div", { class: "cells", "aria-hidden": "true" }, ...(cells.length > 0 ? cells : [h("i", {})])),
    h("p", { class: "legend" }, ...words),
  );
}

function answerTable(answers: Running[]): HTMLElement {
  if (answers.length === 0) return h("p", { class: "note" }, "No answer is being made.");
  const head = ["answer", "age", "tokens", "guessed right"].map((text) => h("th", { scope: "col" }, text));
  const rows = answers.map((each) =>
    h(
      "tr",
      {},
      h("td", {}, `#${each.id}`),
      h("td", {}, `${each.seconds.toFixed(1)} s`),
      h("td", {}, each.answer_tokens > 0 ? String(each.answer_tokens) : `reads ${each.prompt_tokens}`),
      h("td", {}, each.drafted > 0 ? `${each.accepted} of ${each.drafted}` : "–"),
    ),
  );
  return h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
}
