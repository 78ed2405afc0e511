import { announce, h, icon } from "./dom";
import { messageView, type MessageActions, type MessageView } from "./message_view";
import { RoundView } from "./round_view";
import type { Conversation, Message } from "./store";

const suggestions = [
  "Explain rain to a child.",
  "Write a haiku about the sea.",
  "Write a Python function that reverses a list.",
  "List five uses for an old newspaper.",
];

/** The messages of a conversation; stays at the end while an answer grows, unless its reader scrolled away. */
export class Thread {
  readonly element = h("div", { class: "thread", role: "log", "aria-label": "Conversation", "aria-live": "off" });
  readonly rounds: RoundView;
  private readonly list = h("div", { class: "messages" });
  private readonly toEnd = h("button", { type: "button", class: "to-end", "aria-label": "To the end", onclick: () => this.scrollToEnd() }, icon("down"));
  private readonly views = new Map<Message, MessageView>();
  private isAtEnd = true;
  private frame = 0;

  constructor(
    private readonly actions: MessageActions,
    private readonly ask: (question: string) => void,
  ) {
    this.element.append(this.list, this.toEnd);
    this.rounds = new RoundView((article) => this.messageOf(article)?.rounds ?? []);
    this.rounds.watch(this.element);
    this.element.addEventListener("scroll", () => this.noteScroll(), { passive: true });
    // A question of several lines, or a phone's keyboard, takes room.
    new ResizeObserver(() => this.isAtEnd && this.scrollToEnd()).observe(this.element);
  }

  show(conversation: Conversation, about: string): void {
    this.rounds.hide();
    this.views.clear();
    this.list.replaceChildren();
    if (conversation.messages.length === 0) this.list.append(this.welcome(about));
    for (const message of conversation.messages) this.add(message);
    this.scrollToEnd();
  }

  /** After another tab changed it: who reads further up stays there. */
  refresh(conversation: Conversation, about: string): void {
    const place = this.isAtEnd ? undefined : this.element.scrollTop;
    this.show(conversation, about);
    if (place !== undefined) this.element.scrollTop = place;
  }

  /** Whether a question is being edited. */
  get isEditing(): boolean {
    return this.list.querySelector(".editing") !== null;
  }

  /** What is to be known of the conversation, below what is there. */
  note(words: string): void {
    this.list.append(h("p", { class: "note", role: "status" }, words));
    if (this.isAtEnd) this.scrollToEnd();
  }

  focusLast(): void {
    [...this.views.values()].at(-1)?.element.focus({ preventScroll: true });
  }

  add(message: Message, state?: "coming"): void {
    this.list.querySelector(".welcome")?.remove();
    const view = messageView(message, this.actions);
    if (state) view.show(state);
    this.views.set(message, view);
    this.list.append(view.element);
  }

  /** Soon, and once for all changes until then. */
  change(message: Message): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.views.get(message)?.show("coming");
      if (this.isAtEnd) this.scrollToEnd();
    });
  }

  finish(message: Message, state?: "checking"): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.views.get(message)?.show(state);
    if (this.isAtEnd) this.scrollToEnd();
    if (state) return;
    announce(message.problem ? "" : message.stopped ? "Stopped." : "Answer complete.");
  }

  editLast(messages: Message[]): void {
    const last = messages.findLast((message) => message.role === "user");
    if (last) this.views.get(last)?.edit?.();
  }

  scrollToEnd(): void {
    this.element.scrollTop = this.element.scrollHeight;
    this.isAtEnd = true;
    this.toEnd.hidden = true;
  }

  private messageOf(article: HTMLElement): Message | undefined {
    for (const [message, view] of this.views) if (view.element === article) return message;
    return undefined;
  }

  private noteScroll(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    this.isAtEnd = scrollHeight - scrollTop - clientHeight < 48;
    this.toEnd.hidden = this.isAtEnd;
  }

  private welcome(about: string): HTMLElement {
    const chips = suggestions.map((text) => h("button", { type: "button", onclick: () => this.ask(text) }, text));
    return h(
      "div",
      { class: "welcome" },
      h("h1", {}, "Ask something."),
      h(
        "p",
        {},
        "Talon guesses ahead and keeps what the model agrees with. Words that were guessed are ",
        h("span", { class: "token kept" }, "tinted like this"),
        "; point at one to see the tree it came from. The answer is the one that the model alone gives, byte for byte.",
      ),
      h("div", { class: "chips" }, ...chips),
      h("p", { class: "about" }, about),
    );
  }
}
