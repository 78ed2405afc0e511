import { getJson } from "../api";
import { announce, h } from "../dom";
import { Easel } from "./easel";
import { LargeView } from "./large_view";
import type { Asked, DrawingModel, PictureFacts } from "./picture_api";
import { begin, drawPlainly, drawSeries, isDone, type Series } from "./series";
import { SeriesView } from "./series_view";

/** The view of models that draw: a gallery of what was drawn, the last at the end, and the easel below it. */
export class Studio {
  private readonly gallery = h("div", { class: "gallery", "aria-label": "Pictures", role: "log", "aria-live": "off" });
  private readonly list = h("div", { class: "all-series" });
  private readonly large = new LargeView(() => this.facts);
  private readonly easel: Easel;
  private readonly views: SeriesView[] = [];
  private running: AbortController | null = null;
  private frame = 0;
  private readonly changed = new Map<SeriesView, Set<number>>();
  readonly element: HTMLElement;

  constructor(
    models: DrawingModel[],
    private readonly askForKey: () => void,
  ) {
    this.easel = new Easel(models, {
      draw: (asked, model) => this.draw(asked, model),
      stop: () => this.stop(),
      refuse: (message) => this.refuse(message),
    });
    this.gallery.append(this.list);
    this.element = h("div", { class: "studio" }, this.gallery, this.easel.element, this.large.element);
    this.showWelcome();
    for (const model of models) void this.learn(model);
  }

  focus(): void {
    this.easel.focus();
  }

  get isRunning(): boolean {
    return this.running !== null;
  }

  stop(): void {
    this.running?.abort();
  }

  again(): void {
    const last = this.views.at(-1);
    if (last) this.anotherSeed(last.series);
  }

  compare(): void {
    const last = this.views.at(-1);
    if (last && isDone(last.series)) void this.plain(last);
  }

  /** Words or names of classes, for suggestions; the view goes without where they cannot be had. */
  private async learn(model: DrawingModel): Promise<void> {
    const found = await getJson<{ talon?: { pictures?: PictureFacts } }>(`/v1/models/${encodeURIComponent(model.id)}`).catch(() => null);
    if (!found?.talon?.pictures) return;
    model.facts = found.talon.pictures;
    if (model !== this.easel.model) return;
    this.easel.fillPrompt();
    if (this.views.length === 0) this.showWelcome();
  }

  private draw(asked: Asked, model: DrawingModel): void {
    if (this.running) return;
    const view = new SeriesView(begin(asked, model), {
      again: (series) => this.anotherSeed(series),
      plain: () => void this.plain(view),
      remove: () => this.remove(view),
      open: (card, cards) => {
        this.facts = model.facts;
        this.large.open(card, cards);
      },
      askForKey: this.askForKey,
      isBusy: () => this.isRunning,
    });
    if (this.views.length === 0) this.list.replaceChildren();
    this.list.querySelector(".refusal")?.remove();
    this.views.push(view);
    this.list.append(view.element);
    this.scrollToEnd();
    void this.run(async (signal) => {
      await drawSeries(view.series, signal, (index) => this.change(view, index));
      this.showChanges();
      view.finish();
      this.scrollToEnd();
      announce(isDone(view.series) ? "The pictures are drawn." : view.series.stopped ? "Stopped." : "");
    });
  }

  private facts: PictureFacts = { width: 1, height: 1, columns: 1, rows: 1, prompt: "text", drafter: "", guidance: 1 };

  private anotherSeed(series: Series): void {
    const seed = Math.floor(Math.random() * 2 ** 31);
    this.draw({ ...series.asked, seed }, series.model);
  }

  private async plain(view: SeriesView): Promise<void> {
    if (this.running || view.series.plain || view.series.asked.drafter === "none") return;
    view.finish(true);
    await this.run((signal) => drawPlainly(view.series, signal));
    view.finish();
    if (view === this.views.at(-1)) this.scrollToEnd();
  }

  private remove(view: SeriesView): void {
    this.views.splice(this.views.indexOf(view), 1);
    view.element.remove();
    if (this.views.length === 0) this.showWelcome();
    this.focus();
  }

  private async run(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const controller = new AbortController();
    this.running = controller;
    this.easel.setBusy(true);
    try {
      await work(controller.signal);
    } finally {
      this.running = null;
      this.easel.setBusy(false);
    }
  }

  /** Soon, and once for all changes until then. */
  private change(view: SeriesView, index: number): void {
    const indexes = this.changed.get(view) ?? new Set();
    this.changed.set(view, indexes.add(index));
    this.frame ||= requestAnimationFrame(() => this.showChanges());
  }

  private showChanges(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    for (const [view, indexes] of this.changed) for (const index of indexes) view.change(index);
    this.changed.clear();
  }

  private scrollToEnd(): void {
    this.gallery.scrollTop = this.gallery.scrollHeight;
  }

  private refuse(message: string): void {
    this.list.querySelector(".refusal")?.remove();
    this.list.append(h("p", { class: "note refusal", role: "alert" }, message));
    this.scrollToEnd();
  }

  private showWelcome(): void {
    const { facts, id } = this.easel.model;
    const chips = suggestionsOf(facts).map(([prompt, style]) => h("button", { type: "button", onclick: () => this.easel.suggest(prompt, style) }, `${prompt} ${style}`.trim()));
    this.list.replaceChildren(
      h(
        "div",
        { class: "welcome" },
        h("h1", {}, "Draw something."),
        h(
          "p",
          {},
          "Talon guesses cells ahead and keeps those that the model would have drawn. Cells that were guessed are ",
          h("span", { class: "token kept" }, "tinted like this"),
          ", darker the further ahead. The pictures are those that the model alone draws, pixel for pixel.",
        ),
        h("div", { class: "chips" }, ...chips),
        h("p", { class: "about" }, `${id} · ${facts.width} by ${facts.height} pixels, ${facts.columns * facts.rows} cells · guesses by ${facts.drafter}`),
      ),
    );
  }
}

/** Prompts to begin with: [words, style]. */
function suggestionsOf({ prompt, words = [], styles = [], class_names: names = [], classes = 0 }: PictureFacts): [string, string][] {
  const spread = <Value>(list: Value[]) => [0.05, 0.3, 0.55, 0.8].map((part) => list[Math.floor(part * list.length)]);
  if (prompt === "words" && words.length > 0) return spread(words).map((word, i) => [word, styles[i % styles.length]]);
  if (prompt === "class" && names.length > 0) return spread(names).map((name) => [name.split(",")[0], ""]);
  if (prompt === "class") return spread(Array.from({ length: classes }, (_, i) => i)).map((number) => [String(number), ""]);
  return prompt === "text" ? [["a red fox in the snow", ""], ["a lighthouse at night", ""], ["a bowl of cherries", ""]] : [];
}
