import { h } from "../dom";
import type { PictureFacts, PictureNews } from "./picture_api";

/** One picture as it grows: the cells that are drawn, and tints over them that tell how they came. */
export class Card {
  private readonly image = h("img", { alt: "", draggable: false, hidden: true });
  private readonly tints: HTMLCanvasElement;
  private readonly caption = h("figcaption", {});
  readonly element: HTMLElement;
  news?: PictureNews;

  constructor(
    private readonly facts: PictureFacts,
    private readonly name: string,
    open?: (card: Card) => void,
  ) {
    this.tints = h("canvas", { class: "tints", width: facts.columns, height: facts.rows, "aria-hidden": "true" });
    const frame = h("div", { class: "frame" }, this.image, this.tints);
    frame.style.aspectRatio = `${facts.width} / ${facts.height}`;
    this.element = h("figure", { class: "picture growing", tabIndex: open ? 0 : -1, role: open ? "button" : "img" }, frame, this.caption);
    if (open) {
      this.element.addEventListener("click", () => open(this));
      this.element.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        open(this);
      });
    }
    this.label();
  }

  show(news: PictureNews): void {
    this.news = news;
    this.image.src = news.source;
    this.image.hidden = false;
    this.element.classList.toggle("growing", !news.isDone);
    this.paint(news.depths);
    this.label();
  }

  /** Nothing more comes. */
  end(): void {
    this.element.classList.remove("growing");
  }

  private label(): void {
    const news = this.news;
    const all = this.facts.columns * this.facts.rows;
    const perStep = news ? ((news.tokens ?? news.depths.length) / news.forwards).toFixed(2) : "";
    const state = news ? (news.isDone ? "" : `${news.depths.length} of ${all} cells, `) : "not begun";
    this.element.setAttribute("aria-label", `${this.name}: ${news ? `${state}seed ${news.seed}, ${perStep} tokens a step` : state}`);
    this.caption.replaceChildren(h("span", {}, news ? `seed ${news.seed}` : "…"), h("span", {}, news ? `${perStep} a step` : ""));
  }

  private paint(depths: number[]): void {
    const { columns, rows } = this.facts;
    const [drawn, left] = [Math.floor(depths.length / columns) / rows, (depths.length % columns) / columns];
    const [above, below] = [`${100 * drawn}%`, `${100 * (drawn + 1 / rows)}%`];
    this.image.style.clipPath = depths.length < columns * rows ? `polygon(0 0, 100% 0, 100% ${above}, ${100 * left}% ${above}, ${100 * left}% ${below}, 0 ${below})` : "";
    const tints = this.tints.getContext("2d") as CanvasRenderingContext2D;
    tints.clearRect(0, 0, columns, rows);
    for (const [cell, depth] of depths.entries()) {
      tints.fillStyle = tintOf(depth);
      tints.fillRect(cell % columns, Math.floor(cell / columns), 1, 1);
    }
  }
}

/** Grey: the target's own; green: guessed, darker the deeper in its draft. */
export function tintOf(depth: number): string {
  if (depth === 0) return "rgb(110 110 110 / 30%)";
  const shade = Math.max(70, 215 - 18 * depth);
  return `rgb(0 ${shade} ${Math.round(shade * 0.8)} / 55%)`;
}
