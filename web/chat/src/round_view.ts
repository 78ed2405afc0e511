import type { Round } from "./api";
import { announce, h } from "./dom";
import { inWords, roundCard } from "./tree";

const openAfter = 140;
const closeAfter = 220;

/** Shows the round of the token under the pointer, or the one that arrow keys chose, beside its words. */
export class RoundView {
  private readonly card = h("div", { class: "popover", role: "tooltip", id: "round-card", hidden: true });
  private timer = 0;
  private thread: HTMLElement | null = null;
  /** Where the thread stood when the card found its place. */
  private scrollTop = 0;
  private shown: { answer: HTMLElement; round: number } | null = null;

  constructor(private readonly roundsOf: (answer: HTMLElement) => Round[]) {
    document.body.append(this.card);
    this.card.addEventListener("pointerenter", () => clearTimeout(this.timer));
    this.card.addEventListener("pointerleave", () => this.hideSoon());
    window.addEventListener("resize", () => this.hide());
  }

  /** Listens to the tokens below `thread`. */
  watch(thread: HTMLElement): void {
    this.thread = thread;
    thread.addEventListener("pointerover", (event) => {
      if (event.pointerType === "touch") return;
      const token = tokenOf(event.target);
      if (!token) return this.hideSoon();
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.showToken(token), this.shown ? 60 : openAfter);
    });
    thread.addEventListener("pointerleave", () => this.hideSoon());
    thread.addEventListener("click", (event) => {
      const token = tokenOf(event.target);
      if (token && getSelection()?.isCollapsed !== false) this.showToken(token);
      else this.hide();
    });
    thread.addEventListener("scroll", () => thread.scrollTop !== this.scrollTop && this.hide(), { passive: true });
    document.addEventListener("pointerdown", ({ target }) => {
      if (target instanceof Node && !thread.contains(target) && !this.card.contains(target)) this.hide();
    });
    thread.addEventListener("keydown", (event) => this.onKey(event));
  }

  hide(): void {
    clearTimeout(this.timer);
    if (!this.shown) return;
    this.mark(false);
    this.shown = null;
    this.card.hidden = true;
  }

  get isShown(): boolean {
    return this.shown !== null;
  }

  private onKey(event: KeyboardEvent): void {
    const answer = event.target as HTMLElement;
    if (!answer.matches("article.assistant") || !document.documentElement.classList.contains("tinted")) return;
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const count = this.roundsOf(answer).length;
    if (step === 0 || count === 0) return;
    event.preventDefault();
    const from = this.shown?.answer === answer ? this.shown.round : step > 0 ? -1 : count;
    this.show(answer, Math.min(count - 1, Math.max(0, from + step)));
    announce(inWords(this.roundsOf(answer)[(this.shown as unknown as { round: number }).round]));
  }

  private showToken(token: HTMLElement): void {
    const answer = token.closest<HTMLElement>("article");
    if (answer && document.documentElement.classList.contains("tinted")) this.show(answer, Number(token.dataset.round), token);
  }

  private show(answer: HTMLElement, index: number, at?: HTMLElement): void {
    clearTimeout(this.timer);
    const rounds = this.roundsOf(answer);
    const round = rounds[index];
    if (!round) return;
    const isSame = this.shown?.answer === answer && this.shown.round === index;
    if (isSame) return;
    this.mark(false);
    this.shown = { answer, round: index };
    this.mark(true);
    this.card.replaceChildren(roundCard(round, index + 1, rounds.length));
    this.card.hidden = false;
    const anchor = at ?? anchorOf(answer, index);
    if (!at) anchor?.scrollIntoView({ block: "nearest" });
    this.scrollTop = this.thread?.scrollTop ?? 0;
    if (anchor) this.moveTo(anchor.getClientRects()[0] ?? anchor.getBoundingClientRect());
  }

  private moveTo(rect: DOMRect): void {
    const { offsetWidth: width, offsetHeight: height } = this.card;
    const margin = 10;
    const below = rect.bottom + margin;
    const fitsBelow = below + height < innerHeight - margin;
    const top = fitsBelow ? below : Math.max(margin, rect.top - margin - height);
    const left = Math.max(margin, Math.min(rect.left - 16, innerWidth - width - margin));
    this.card.style.top = `${top}px`;
    this.card.style.left = `${left}px`;
  }

  private mark(isShown: boolean): void {
    if (!this.shown) return;
    const tokens = this.shown.answer.querySelectorAll(`[data-round="${this.shown.round}"]`);
    for (const token of tokens) token.classList.toggle("shown", isShown);
  }

  private hideSoon(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.hide(), closeAfter);
  }
}

/** The first token of a round that is seen; for one in a closed thought, its title. */
function anchorOf(answer: HTMLElement, index: number): HTMLElement | undefined {
  const tokens = [...answer.querySelectorAll<HTMLElement>(`[data-round="${index}"]`)];
  const closed = (token: HTMLElement) => token.closest("details:not([open])");
  return tokens.find((token) => !closed(token)) ?? (tokens[0] && closed(tokens[0])?.querySelector("summary")) ?? undefined;
}

function tokenOf(target: EventTarget | null): HTMLElement | null {
  return target instanceof Element ? target.closest<HTMLElement>(".token") : null;
}
