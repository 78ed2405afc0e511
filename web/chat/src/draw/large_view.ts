import { h, icon, iconButton } from "../dom";
import { Card } from "./card";
import type { PictureFacts } from "./picture_api";

/** One picture as large as fits, with the others of its series beside it by arrow keys. */
export class LargeView {
  readonly element = h("dialog", { class: "panel large", "aria-label": "Picture" });
  private cards: Card[] = [];
  private at = 0;

  constructor(private readonly facts: () => PictureFacts) {
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
    this.show();
    this.element.showModal();
  }

  private turn(step: number): void {
    this.at = (this.at + step + this.cards.length) % this.cards.length;
    this.show();
  }

  private show(): void {
    const news = this.cards[this.at].news;
    if (!news) return;
    const card = new Card(this.facts(), "Picture");
    card.show(news);
    const save = h("a", { class: "ghost worded", href: news.source, download: `picture-${news.seed}.png` }, icon("download"), "Save");
    const turns = this.cards.length > 1 ? [iconButton("back", "The one before (←)", () => this.turn(-1)), iconButton("forth", "The next (→)", () => this.turn(1))] : [];
    this.element.replaceChildren(
      h("header", {}, h("div", {}, ...turns), h("div", {}, save, iconButton("close", "Close", () => this.element.close(), { autofocus: true }))),
      card.element,
    );
  }
}
