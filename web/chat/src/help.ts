import { h, iconButton, isTouch } from "./dom";

const shortcuts: [string, string][] = [
  ["Enter", isTouch() ? "a new line; with Ctrl ask" : "ask; with Shift a new line"],
  ["Esc", "stop the answer, close what is open, leave the question"],
  ["/", "to the question"],
  ["↑", "in an empty question: edit the last one"],
  ["n", "new conversation"],
  ["r", "answer again"],
  ["c", "the last answer without drafts, and compare"],
  ["t", "tints on and off"],
  ["l", "the server at work"],
  ["d", "chat or draw, where the server does both"],
  ["s", "settings"],
  ["← →", "on an answer: its passes one by one, with their trees"],
  ["?", "this list"],
];

const drawingShortcuts: [string, string][] = [
  ["Enter", "draw; on a picture: see it large"],
  ["Esc", "stop the drawing, close what is open, leave the prompt"],
  ["/", "to the prompt"],
  ["r", "again with another seed"],
  ["c", "the last series without drafts, and compare"],
  ["t", "tints on and off"],
  ["l", "the server at work"],
  ["d", "chat or draw, where the server does both"],
  ["s", "settings"],
  ["← →", "from picture to picture"],
  ["?", "this list"],
];

export class HelpPanel {
  readonly element = h("dialog", { class: "panel help", "aria-labelledby": "help-title" });

  constructor() {
    this.element.addEventListener("click", (event) => event.target === this.element && this.element.close());
  }

  open(draws: boolean): void {
    const rows = (draws ? drawingShortcuts : shortcuts).flatMap(([keys, words]) => [h("dt", {}, ...keys.split(" ").map((key) => h("kbd", {}, key))), h("dd", {}, words)]);
    const kept = draws ? "Pictures last as long as the page." : "Conversations are kept in this browser and nowhere else.";
    this.element.replaceChildren(
      h("header", {}, h("h2", { id: "help-title", tabIndex: -1, autofocus: true }, "Keys"), iconButton("close", "Close", () => this.element.close())),
      h("dl", {}, ...rows),
      h("p", { class: "hint" }, `Letters count where nothing is being typed. ${kept}`),
    );
    this.element.showModal();
  }
}
