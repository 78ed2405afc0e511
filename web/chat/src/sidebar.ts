import { h, icon, iconButton } from "./dom";
import type { Conversation, Store } from "./store";

interface SidebarActions {
  open(conversation: Conversation): void;
  begin(): void;
  remove(conversation: Conversation): void;
}

/** All conversations, by when they were last changed. On a phone it lies over the rest. */
export class Sidebar {
  private readonly list = h("ul", {});
  private readonly note = h("p", { class: "note", hidden: true }, "The browser has no room, or keeps nothing: what is new is forgotten with the page.");
  private readonly beginning = h("button", { type: "button", class: "begin", onclick: () => this.actions.begin() }, icon("plus"), "New conversation");
  private shown = "";
  private rows = new Map<Conversation, HTMLElement>();
  /** Opens it on a phone, where alone it is seen. */
  readonly menu = iconButton("menu", "Conversations", () => this.toggle(), { class: "ghost menu", "aria-expanded": "false" });
  readonly element = h("nav", { class: "sidebar", "aria-label": "Conversations" });

  constructor(
    private readonly store: Store,
    private readonly actions: SidebarActions,
  ) {
    const head = h("div", { class: "brand" }, mark(), h("span", {}, "Talon"), iconButton("close", "Close the list", () => this.toggle(false), { class: "ghost close" }));
    this.element.append(head, this.beginning, this.list, this.note);
  }

  toggle(isOpen = !document.body.classList.contains("sidebar-open")): void {
    const isInside = this.element.contains(document.activeElement);
    document.body.classList.toggle("sidebar-open", isOpen);
    this.menu.setAttribute("aria-expanded", String(isOpen));
    if (!isOpen && isInside) this.menu.focus();
  }

  show(current: Conversation): void {
    this.note.hidden = this.store.isKept;
    const listed = this.store.conversations.filter((each) => each.messages.length > 0);
    const shown = JSON.stringify(listed.map((each) => [each.id, each.title, each === current]));
    // Rows that are right stay, with the focus and what was asked in them.
    if (shown === this.shown) return;
    this.shown = shown;
    const focused = [...this.rows].find(([, row]) => row.contains(document.activeElement))?.[0];
    this.rows = new Map(listed.map((each): [Conversation, HTMLElement] => [each, this.row(each, each === current)]));
    this.list.replaceChildren(...this.rows.values());
    if (focused) (this.rows.get(focused)?.querySelector<HTMLElement>(".open") ?? this.beginning).focus({ preventScroll: true });
  }

  private row(conversation: Conversation, isCurrent: boolean): HTMLElement {
    const open = h(
      "button",
      {
        type: "button",
        class: "open",
        "aria-current": isCurrent ? "page" : undefined,
        onclick: () => {
          this.actions.open(conversation);
          this.toggle(false);
        },
      },
      conversation.title,
    );
    const remove = iconButton("trash", `Delete “${conversation.title}”`, () => this.askToRemove(row, conversation));
    const row = h("li", {}, open, remove);
    return row;
  }

  private askToRemove(row: HTMLElement, conversation: Conversation): void {
    const [open, trash] = [...row.children] as HTMLElement[];
    const keep = () => {
      row.replaceChildren(open, trash);
      trash.focus();
    };
    const cancel = h("button", { type: "button", class: "ghost worded", onclick: keep }, "Keep");
    const remove = h("button", { type: "button", class: "ghost worded danger", onclick: () => this.actions.remove(conversation) }, "Delete");
    row.replaceChildren(h("span", { class: "question" }, "Delete it?"), cancel, remove);
    cancel.focus();
  }
}

/** The mark: a line that forks, of which one branch goes on. */
export function mark(): HTMLElement {
  const box = h("span", { class: "mark", "aria-hidden": "true" });
  box.innerHTML =
    '<svg viewBox="0 0 32 32"><path class="faint" d="M13 16c5 0 3-9 13-9M13 16c5 0 3 9 13 9"/><path d="M5 16h21"/></svg>';
  return box;
}
