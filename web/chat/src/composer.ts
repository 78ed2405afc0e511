import { h, icon, isAsking, isTouch } from "./dom";

/** Where questions are written. Its button asks, or stops while an answer comes. */
export class Composer {
  private readonly area = h("textarea", {
    rows: 1,
    placeholder: "Ask something",
    "aria-label": "Your question",
    "aria-keyshortcuts": "/",
    autocomplete: "off",
  });
  private readonly button = h("button", { type: "submit", class: "send" });
  readonly element = h("form", { class: "composer" }, h("div", { class: "field" }, this.area, this.button));
  private isBusy = false;

  constructor(
    private readonly ask: (question: string) => void,
    private readonly stop: () => void,
    private readonly editLast: () => void,
  ) {
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.isBusy ? this.stop() : this.send();
    });
    this.area.addEventListener("input", () => this.fit());
    this.area.addEventListener("keydown", (event) => this.onKey(event));
    this.setBusy(false);
  }

  focus(): void {
    this.fit();
    this.area.focus({ preventScroll: true });
  }

  setBusy(isBusy: boolean): void {
    this.isBusy = isBusy;
    const label = (isBusy ? "Stop" : "Ask") + (isTouch() ? "" : isBusy ? " (Esc)" : " (Enter)");
    this.button.replaceChildren(icon(isBusy ? "stop" : "send"));
    this.button.title = label;
    this.button.setAttribute("aria-label", label);
    this.fit();
  }

  private send(): void {
    const question = this.area.value.trim();
    if (!question) return;
    this.area.value = "";
    this.fit();
    this.ask(question);
  }

  private onKey(event: KeyboardEvent): void {
    if (event.key === "ArrowUp" && !this.area.value) {
      event.preventDefault();
      this.editLast();
    }
    if (!isAsking(event)) return;
    event.preventDefault();
    if (!this.isBusy) this.send();
  }

  private fit(): void {
    this.area.style.height = "auto";
    this.area.style.height = `${Math.min(this.area.scrollHeight, innerHeight * 0.4)}px`;
    this.button.disabled = !this.isBusy && !this.area.value.trim();
  }
}
