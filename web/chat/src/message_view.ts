import { isWhole, wordsFor } from "./answer";
import { titleOf, type Problem } from "./api";
import { copyButton, h, icon, iconButton, isAsking, isComposing } from "./dom";
import { MarkdownView } from "./markdown";
import type { Message } from "./store";
import { tokenSpans } from "./tokens";

export interface MessageActions {
  again(message: Message): void;
  edit(message: Message, text: string): void;
  plain(message: Message): void;
  askForKey(): void;
  /** Nothing can be changed while an answer comes. */
  isBusy(): boolean;
}

export interface MessageView {
  readonly element: HTMLElement;
  show(state?: "coming" | "checking"): void;
  edit?(): void;
}

export function messageView(message: Message, actions: MessageActions): MessageView {
  return message.role === "user" ? new QuestionView(message, actions) : new AnswerView(message, actions);
}

class QuestionView implements MessageView {
  readonly element = h("article", { class: "user", "aria-label": "You" });

  constructor(
    private readonly message: Message,
    private readonly actions: MessageActions,
  ) {
    this.show();
  }

  show(): void {
    const tools = h(
      "div",
      { class: "tools" },
      iconButton("edit", "Edit and ask again", () => this.edit()),
      copyButton("Copy question", () => this.message.text),
    );
    this.element.replaceChildren(h("div", { class: "said" }, this.message.text), tools);
  }

  edit(): void {
    if (this.actions.isBusy()) return;
    const area = h("textarea", { value: this.message.text, "aria-label": "Edit the question", rows: 1 });
    const fit = () => {
      area.style.height = "auto";
      area.style.height = `${area.scrollHeight}px`;
    };
    const ask = () => area.value.trim() && this.actions.edit(this.message, area.value.trim());
    area.addEventListener("input", fit);
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !isComposing(event)) {
        event.stopPropagation();
        this.leaveEdit();
      }
      if (!isAsking(event)) return;
      event.preventDefault();
      ask();
    });
    const buttons = h(
      "div",
      { class: "edit-buttons" },
      h("button", { type: "button", class: "ghost", onclick: () => this.leaveEdit() }, "Cancel"),
      h("button", { type: "button", class: "primary", onclick: ask }, "Ask again"),
    );
    this.element.replaceChildren(h("div", { class: "said editing" }, area, buttons));
    fit();
    area.focus();
  }

  private leaveEdit(): void {
    this.show();
    this.element.querySelector("button")?.focus();
  }
}

class AnswerView implements MessageView {
  readonly element = h("article", { class: "assistant", tabIndex: 0, "aria-label": "Answer" });
  private readonly thought = new ThoughtView();
  private readonly markdown = new MarkdownView();
  private readonly foot = h("footer", {});

  constructor(
    private readonly message: Message,
    private readonly actions: MessageActions,
  ) {
    this.element.append(this.markdown.element, this.foot);
    this.show();
  }

  show(state?: "coming" | "checking"): void {
    const { message } = this;
    this.element.setAttribute("aria-busy", String(state === "coming"));
    this.element.classList.toggle("coming", state === "coming");
    this.element.classList.toggle("waiting", state === "coming" && !message.text && !message.thought);
    if (message.thought && !this.thought.element.parentElement) this.element.prepend(this.thought.element);
    this.thought.show(message, state === "coming");
    this.markdown.show(message.text, tokenSpans(message.text, message.rounds ?? [], message.textFrom));
    if (state === "coming") return this.foot.replaceChildren();
    const isInside = this.foot.contains(document.activeElement);
    this.foot.replaceChildren(
      ...[
        message.problem && this.problem(message.problem, () => this.actions.again(message)),
        this.note(),
        h("div", { class: "tools" }, ...this.tools(state), this.figures()),
        this.comparison(state),
      ].filter((part) => part instanceof HTMLElement),
    );
    if (isInside) this.element.focus({ preventScroll: true }); // the button that was pressed is gone
  }

  private tools(state?: string): (HTMLElement | null)[] {
    const { message, actions } = this;
    return [
      message.text ? copyButton("Copy answer", () => message.text) : null,
      iconButton("again", "Answer again", () => actions.again(message)),
      isWhole(message) && !message.plain && state !== "checking"
        ? h("button", { type: "button", class: "ghost worded", onclick: () => actions.plain(message) }, icon("race"), "Without drafts")
        : null,
    ];
  }

  private figures(): HTMLElement | null {
    const { timings, rounds } = this.message;
    if (!timings || timings.predicted_n < 2) return null;
    const passes = rounds?.length ?? 0;
    const parts = [`${Math.round(timings.predicted_per_second)} tokens/s`];
    if (passes > 0) parts.push(`${(timings.predicted_n / passes).toFixed(2)} a pass`);
    parts.push(`${timings.predicted_n} tokens`);
    const seed = this.message.settings?.seed;
    const title = `${timings.draft_n} guessed, ${timings.draft_n_accepted} right; drafter ${this.message.drafter}; seed ${seed}; question of ${timings.prompt_n + timings.cache_n} tokens read in ${Math.round(timings.prompt_ms)} ms`;
    return h("span", { class: "figures", title }, parts.join(" · "));
  }

  private note(): HTMLElement | null {
    const { stopped, ended, finish, problem, text, settings } = this.message;
    const note = (words: string) => h("p", { class: "note" }, words);
    if (stopped) return note("Stopped.");
    if (ended) return note(wordsFor(ended));
    if (finish === "length") return note(settings?.maxTokens === "" ? "Cut where the model's context ends." : "Cut at the most tokens that the settings allow.");
    if (!finish && !problem) return note("Not complete: it was stopped, or still comes in another tab.");
    return finish && !text ? note("The model had nothing to say.") : null;
  }

  private problem(problem: Problem, again: () => void): HTMLElement {
    const retry = h("button", { type: "button", class: "primary", onclick: again }, "Try again");
    const key = h("button", { type: "button", class: "primary", onclick: () => this.actions.askForKey() }, "Enter the key");
    if (problem.wait) waitFor(retry, problem.wait);
    return h(
      "div",
      { class: "problem", role: "alert" },
      h("div", {}, h("strong", {}, titleOf(problem)), h("p", {}, problem.message)),
      problem.kind === "key" ? key : retry,
    );
  }

  /** Drafted and plain side by side. */
  private comparison(state?: string): HTMLElement | null {
    const { plain, plainProblem, timings } = this.message;
    if (state === "checking") return h("div", { class: "comparison checking", role: "status" }, "Asking the same without drafts…");
    if (plainProblem) return this.problem(plainProblem, () => this.actions.plain(this.message));
    if (!plain || !timings) return null;
    const drafted = timings.predicted_per_second;
    const most = Math.max(drafted, plain.perSecond);
    const bar = (name: string, value: number, kind: string) => {
      const length = h("div", { class: `bar ${kind}` });
      length.style.width = `${(100 * value) / most}%`;
      return [h("dt", {}, name), h("dd", {}, h("div", { class: "track" }, length), h("span", {}, `${Math.round(value)} tokens/s`))];
    };
    const verdict = plain.equal
      ? h("p", { class: "verdict" }, icon("check"), `The same ${plain.bytes.toLocaleString()} bytes, ${(drafted / plain.perSecond).toFixed(2)} times the speed.`)
      : h("p", { class: "verdict unequal", role: "alert" }, icon("close"), "The texts differ. With the rule “follow” they should not: please report it.");
    return h(
      "div",
      { class: "comparison" },
      h("dl", {}, ...bar("With drafts", drafted, "drafted"), ...bar("Without", plain.perSecond, "plain")),
      verdict,
    );
  }
}

/** What the model thought before it answered: open until the answer begins, then as its reader wants it. */
class ThoughtView {
  private readonly markdown = new MarkdownView();
  readonly element = h("details", { class: "thought" }, h("summary", {}, "Thought"), this.markdown.element);
  private wasAlone = false;
  private shown = "";

  show({ text, thought = "", thoughtFrom, rounds = [] }: Message, isComing: boolean): void {
    const isAlone = !text;
    if (isAlone !== this.wasAlone) this.element.open = isAlone;
    this.wasAlone = isAlone;
    this.element.classList.toggle("growing", isComing && isAlone);
    if (thought === this.shown) return;
    this.shown = thought;
    this.markdown.show(thought, tokenSpans(thought, rounds, thoughtFrom));
  }
}

/** Counts down to when the server may be asked again. */
function waitFor(button: HTMLButtonElement, seconds: number): void {
  let left = Math.ceil(seconds);
  const words = button.textContent ?? "";
  const show = () => {
    button.disabled = left > 0;
    button.textContent = left > 0 ? `${words} in ${left} s` : words;
    if (left-- > 0) setTimeout(show, 1000);
  };
  show();
}
