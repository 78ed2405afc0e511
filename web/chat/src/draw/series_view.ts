import { titleOf } from "../api";
import { h, icon } from "../dom";
import { Card } from "./card";
import { cellsOf, forwardsOf, isDone, type Series } from "./series";

export interface SeriesActions {
  again(series: Series): void;
  plain(series: Series): void;
  remove(series: Series): void;
  open(card: Card, cards: Card[]): void;
  askForKey(): void;
  isBusy(): boolean;
}

const count = (value: number) => value.toLocaleString("en");
const nameOf = ({ asked }: Series) => asked.prompt || "a caption";

/** The pictures of a series with what they were asked with and how they came. */
export class SeriesView {
  readonly cards: Card[];
  private readonly figures = h("p", { class: "figures" });
  private readonly below = h("div", {});
  private readonly tools = h("div", { class: "tools" });
  readonly element: HTMLElement;
  private isChecking = false;

  constructor(
    readonly series: Series,
    private readonly actions: SeriesActions,
  ) {
    const { asked, model } = series;
    this.cards = series.pictures.map(
      (_, i) => new Card(model.facts, `${nameOf(series)}, ${i + 1} of ${asked.count}`, (card) => card.news && actions.open(card, this.cards)),
    );
    const settings = `guidance ${asked.guidance} · temperature ${asked.temperature}${asked.drafter ? ` · ${asked.drafter}` : ""}`;
    this.element = h(
      "section",
      { class: "series", "aria-label": nameOf(series), "aria-busy": "true" },
      h("header", {}, h("h2", {}, nameOf(series)), h("p", { class: "quiet" }, settings)),
      h("div", { class: "pictures" }, ...this.cards.map((card) => card.element)),
      h("div", { class: "line" }, this.tools, this.figures),
      this.below,
    );
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.showFigures();
  }

  change(index: number): void {
    const news = this.series.pictures[index];
    if (news) this.cards[index].show(news);
    this.showFigures();
  }

  /** What the end, or a comparison, changed. */
  finish(isChecking = false): void {
    this.isChecking = isChecking;
    for (const card of this.cards) card.end();
    this.element.setAttribute("aria-busy", String(isChecking));
    this.showFigures();
    this.showTools();
    this.below.replaceChildren(...[this.comparison(), this.problem()].filter((each) => each !== null));
  }

  private showFigures(): void {
    const { series } = this;
    const all = series.asked.count * series.model.facts.columns * series.model.facts.rows;
    const [cells, forwards] = [cellsOf(series), forwardsOf(series)];
    const parts = [isDone(series) ? `${count(all)} cells` : `${count(cells)} of ${count(all)} cells`];
    if (forwards > 0) parts.push(`${count(forwards)} steps`, `${(cells / forwards).toFixed(2)} a step`);
    if (series.seconds !== undefined) parts.push(`${series.seconds.toFixed(1)} s`);
    if (series.stopped) parts.push("stopped");
    this.figures.textContent = parts.join(" · ");
    this.figures.title = "Plain drawing takes a step for each cell.";
  }

  private showTools(): void {
    const { series, actions } = this;
    const worded = (name: "race" | "again" | "trash", label: string, onclick: () => void) =>
      h("button", { type: "button", class: "ghost worded", onclick: () => !actions.isBusy() && onclick() }, icon(name), label);
    const isOther = series.asked.drafter !== "none" && isDone(series) && !series.plain;
    this.tools.replaceChildren(
      ...(isOther ? [worded("race", "Without drafts", () => actions.plain(series))] : []),
      worded("again", "Another seed", () => actions.again(series)),
      worded("trash", "Remove", () => actions.remove(series)),
    );
  }

  private comparison(): HTMLElement | null {
    const { plain } = this.series;
    if (this.isChecking) return h("p", { class: "comparison checking", role: "status" }, "Draws the same without drafts …");
    if (!plain) return null;
    const seconds = this.series.seconds ?? 0;
    const forwards = forwardsOf(this.series);
    const longest = Math.max(seconds, plain.seconds);
    const row = (name: string, time: number, steps: number, kind: string) => {
      const bar = h("div", { class: `bar ${kind}` });
      bar.style.width = `${(100 * time) / longest}%`;
      return [h("dt", {}, name), h("dd", {}, h("div", { class: "track" }, bar), h("span", {}, `${time.toFixed(1)} s, ${count(steps)} steps`))];
    };
    const fewer = plain.forwards > forwards ? `${(plain.forwards / forwards).toFixed(2)} times fewer steps` : "as many steps";
    const verdict = plain.equal ? "The same pictures, pixel for pixel" : "Other pictures: this drafter's rule is not exact";
    return h(
      "div",
      { class: "comparison" },
      h("dl", {}, ...row("with drafts", seconds, forwards, "drafted"), ...row("without", plain.seconds, plain.forwards, "")),
      h(
        "p",
        { class: plain.equal ? "verdict" : "verdict unequal", role: "status" },
        icon(plain.equal ? "check" : "close"),
        `${verdict}; ${fewer}.`,
      ),
    );
  }

  private problem(): HTMLElement | null {
    const { series, actions } = this;
    const problem = series.problem ?? series.plainProblem;
    if (!problem || this.isChecking) return null;
    const isKey = problem.kind === "key";
    const act = () => (isKey ? actions.askForKey() : series.problem ? actions.again(series) : actions.plain(series));
    return h(
      "div",
      { class: "problem", role: "alert" },
      h("div", {}, h("strong", {}, titleOf(problem)), h("p", {}, problem.message)),
      h("button", { type: "button", class: "primary", onclick: act }, isKey ? "Enter the key" : "Try again"),
    );
  }

  private onKey(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = this.cards.findIndex((card) => card.element === event.target);
    if (!step || at < 0) return;
    event.preventDefault();
    this.cards[(at + step + this.cards.length) % this.cards.length].element.focus();
  }
}
