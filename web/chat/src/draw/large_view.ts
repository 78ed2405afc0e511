import { h, icon, iconButton } from "../dom";
import { Card } from "./card";
import type { PictureFacts } from "./picture_api";

/** One picture as large as fits, with the others of its series beside it by arrow keys. */
export class LargeView {
  readonly element = h("dialog", { class: "panel large", "aria-label": "Picture" });
  private readonly turns = h("div", {}, iconButton("back", "The one before (←)", () => this.turn(-1)), iconButton("forth", "The next (→)", () => this.turn(1)));
  private readonly save = h("a", { class: "ghost worded" }, icon("download"), "Save");
  private readonly picture = h("div", {});
  private cards: Card[] = [];
  private at = 0;

  constructor(private readonly facts: () => PictureFacts) {
    const close = iconButton("close", "Close", () => this.element.close(), { autofocus: true });
    this.element.append(h("header", {}, this.turns, h("div", {}, this.save, close)), this.picture);
    this.element.addEventListener("click", (event) => event.target === this.element && this.element.close());
    this.element.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) this.turn(step);
    });
    this.element.addEventListener("close", () => this.cards[this.at]?.element.focus());
  }

  open(card: Card, cards: Card[]): void {
    this.cards = cards.filter((each) => each.news);
    this.at = this.cards.indexOf(card);
    this.turns.style.visibility = this.cards.length > 1 ? "" : "hidden";
    this.show();
    this.element.showModal();
  }

  private turn(step: number): void {
    this.at = (this.at + step + this.cards.length) % this.cards.length;
    this.show();
  }

  /** Buttons stay, and the focus with them. */
  private show(): void {
    const news = this.cards[this.at].news;
    if (!news) return;
    const card = new Card(this.facts(), "Picture");
    card.show(news);
    this.save.href = news.source;
    this.save.download = `picture-${news.seed}.png`;
    this.picture.replaceChildren(card.element);
  }
}
