import { h, iconButton } from "./dom";

const shortcuts: [string, string][] = [
  ["Enter", "ask; with Shift a new line"],
  ["Esc", "stop the answer, close what is open, leave the question"],
  ["/", "to the question"],
  ["↑", "in an empty question: edit the last one"],
  ["n", "new conversation"],
  ["r", "answer again"],
  ["c", "the last answer without drafts, and compare"],
  ["t", "tints on and off"],
  ["l", "the server at work"],
  ["s", "settings"],
  ["← →", "on an answer: its passes one by one, with their trees"],
  ["?", "this list"],
];

export class HelpPanel {
  readonly element = h("dialog", { class: "panel help", "aria-labelledby": "help-title" });

  constructor() {
    const rows = shortcuts.flatMap(([keys, words]) => [h("dt", {}, ...keys.split(" ").map((key) => h("kbd", {}, key))), h("dd", {}, words)]);
    this.element.append(
      h("header", {}, h("h2", { id: "help-title", tabIndex: -1, autofocus: true }, "Keys"), iconButton("close", "Close", () => this.element.close())),
      h("dl", {}, ...rows),
      h("p", { class: "hint" }, "Letters count where nothing is being typed. Conversations are kept in this browser and nowhere else."),
    );
    this.element.addEventListener("click", (event) => event.target === this.element && this.element.close());
  }

  open(): void {
    this.element.showModal();
  }
}
