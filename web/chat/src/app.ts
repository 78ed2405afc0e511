import { answer, answerPlain, isWhole } from "./answer";
import { getJson, type Problem } from "./api";
import { Composer } from "./composer";
import type { PictureFacts } from "./draw/picture_api";
import { Studio } from "./draw/studio";
import { h, icon, iconButton, isComposing, isTyping } from "./dom";
import { HealthWatch } from "./health";
import { HelpPanel } from "./help";
import { LivePanel } from "./live";
import { keepPreferences, preferences, settings } from "./settings";
import { SettingsPanel } from "./settings_panel";
import { Sidebar } from "./sidebar";
import { Store, type Conversation, type Message } from "./store";
import { Thread } from "./thread";

interface Props {
  model_alias: string;
  talon: { drafter: string };
}

interface Model {
  id: string;
  talon?: { pictures?: PictureFacts };
}

const isWriting = ({ talon }: Model): boolean => !talon?.pictures;

const themes = ["auto", "light", "dark"] as const;

/** The page: joins conversations, thread, composer and panels. */
export class App {
  private readonly store = new Store({
    isHeld: (conversation) => this.isHeld(conversation),
    changed: (conversation) => this.onChanged(conversation),
    parted: (conversation) => this.onParted(conversation),
  });
  private readonly sidebar = new Sidebar(this.store, {
    open: (conversation) => this.open(conversation),
    begin: () => this.begin(),
    remove: (conversation) => this.remove(conversation),
  });
  private readonly thread = new Thread(
    {
      again: (message) => this.again(message),
      edit: (message, text) => this.edit(message, text),
      plain: (message) => void this.plain(message),
      askForKey: () => this.askForKey(),
      isBusy: () => this.running !== null,
    },
    (question) => this.ask(question),
  );
  private readonly composer = new Composer(
    (question) => this.ask(question),
    () => this.stop(),
    () => this.thread.editLast(this.current.messages),
  );
  private readonly settingsPanel = new SettingsPanel(() => this.onSettings());
  private readonly help = new HelpPanel();
  private readonly live = new LivePanel();
  private readonly health = new HealthWatch(() => void this.learn());
  private readonly title = h("h1", { class: "title" });
  private readonly tint = iconButton("tint", "Tint what was guessed", () => this.toggleTint());
  private readonly theme = iconButton("theme", "Theme", () => this.nextTheme());
  private readonly viewSwitch = iconButton("draw", "Draw (d)", () => this.showView(this.draws ? "chat" : "draw"), { hidden: true });
  private studio: Studio | null = null;
  private current: Conversation = this.store.conversations[0] ?? this.store.begin();
  private running: AbortController | null = null;
  /** Messages that something comes to, also of one that was just stopped. */
  private readonly coming = new Set<Message>();
  private props: Props | null = null;
  private models: Model[] = [];

  constructor(private readonly root: HTMLElement) {}

  start(): void {
    const header = h(
      "header",
      { class: "top" },
      this.sidebar.menu,
      this.title,
      h(
        "div",
        { class: "top-tools", role: "toolbar", "aria-label": "Page" },
        this.viewSwitch,
        iconButton("live", "The server at work (l)", () => this.live.toggle()),
        this.tint,
        iconButton("settings", "Settings (s)", () => this.settingsPanel.open(this.draws)),
        this.theme,
        iconButton("help", "Keys (?)", () => this.help.open(this.draws)),
      ),
    );
    const shade = h("div", { class: "shade", onclick: () => this.sidebar.toggle(false) });
    const main = h("main", {}, header, this.health.element, this.thread.element, this.composer.element);
    this.root.append(this.sidebar.element, shade, main, this.live.element, this.settingsPanel.element, this.help.element);
    document.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("visibilitychange", () => this.onLeave());
    this.showToggles();
    this.open(this.current);
    this.composer.focus();
    void this.learn();
    void this.health.look();
  }

  /** The page may never be seen again: what came of an answer is kept. */
  private onLeave(): void {
    if (document.hidden && this.running) this.keep(this.current);
  }

  private isHeld(conversation: Conversation): boolean {
    const isEdited = conversation === this.current && this.thread.isEditing;
    return isEdited || conversation.messages.some((message) => this.coming.has(message));
  }

  /** By another tab. */
  private onChanged(conversation: Conversation): void {
    if (!this.store.conversations.includes(this.current)) {
      this.open(this.store.begin());
      return this.thread.note("The conversation that was here was deleted in another tab.");
    }
    this.sidebar.show(this.current);
    this.showTitle();
    if (conversation === this.current) this.thread.refresh(conversation, this.about());
  }

  private onParted(conversation: Conversation): void {
    if (conversation === this.current) this.thread.note("Another tab went on with this conversation, too. What is here is kept beside it.");
  }

  private get draws(): boolean {
    return document.body.dataset.view === "draw";
  }

  private async learn(): Promise<void> {
    await Promise.all([this.learnProps(), this.studio ? null : this.learnModels()]);
  }

  /** Models that draw have a view of their own, which is all there is where no model writes. */
  private async learnModels(): Promise<void> {
    const { data = [] } = await getJson<{ data?: Model[] }>("/v1/models").catch(() => ({ data: [] as Model[] }));
    this.models = data;
    this.chooseModel();
    this.showAbout();
    const drawing = data.flatMap(({ id, talon }) => (talon?.pictures ? [{ id, facts: talon.pictures }] : []));
    if (drawing.length === 0 || this.studio) return;
    this.studio = new Studio(drawing, () => this.askForKey());
    this.composer.element.after(this.studio.element);
    const writes = data.some(isWriting);
    this.viewSwitch.hidden = !writes;
    this.showView(writes ? preferences.view : "draw");
  }

  /** Without a name the first model is asked, which may be one that draws; a name may be another server's. */
  private chooseModel(): void {
    const writing = this.models.filter(isWriting);
    if (writing.length === 0 || writing.some(({ id }) => id === (settings.model || this.models[0].id))) return;
    settings.model = writing[0].id;
  }

  private showView(view: "chat" | "draw"): void {
    if (view === preferences.view && view === "chat" && !this.draws) return;
    document.body.dataset.view = view;
    preferences.view = view;
    keepPreferences("view");
    this.viewSwitch.replaceChildren(icon(this.draws ? "chat" : "draw"));
    this.viewSwitch.title = this.draws ? "Chat (d)" : "Draw (d)";
    this.viewSwitch.setAttribute("aria-label", this.viewSwitch.title);
    this.showTitle();
    this.draws ? this.studio?.focus() : this.composer.focus();
  }

  private askForKey(): void {
    this.settingsPanel.open(this.draws, "key");
  }

  private onSettings(): void {
    this.chooseModel();
    this.showAbout();
    if (!this.props) void this.learnProps();
    if (this.models.length === 0) void this.learnModels();
  }

  private async learnProps(): Promise<void> {
    this.props = await getJson<Props>("/props").catch(() => this.props);
    this.showAbout();
    if (this.current.messages.length === 0) this.thread.show(this.current, this.about());
  }

  private about(): string {
    if (!this.props) return "";
    const model = settings.model || this.props.model_alias;
    // Of other models than the first the server does not tell.
    const drafter = settings.drafter || (model === this.props.model_alias ? this.props.talon.drafter : "");
    if (!drafter) return model;
    return `${model} · ${drafter === "none" ? "nothing is guessed" : `guesses by ${drafter}`}`;
  }

  private showAbout(): void {
    const about = this.thread.element.querySelector(".about");
    if (about) about.textContent = this.about();
  }

  private begin(): void {
    this.open(this.store.begin());
    this.sidebar.toggle(false);
    this.composer.focus();
  }

  private open(conversation: Conversation): void {
    if (conversation !== this.current) this.stop();
    this.current = conversation;
    this.sidebar.show(conversation);
    this.showTitle();
    this.thread.show(conversation, this.about());
  }

  private showTitle(): void {
    const title = this.draws ? "" : this.current.title;
    this.title.textContent = title;
    document.title = title ? `${title} · Talon` : "Talon";
  }

  private remove(conversation: Conversation): void {
    this.store.remove(conversation);
    if (conversation !== this.current) return this.sidebar.show(this.current);
    this.open(this.store.conversations[0] ?? this.store.begin());
  }

  private ask(question: string): void {
    if (this.running) return;
    this.store.look(this.current.id);
    this.put(question);
  }

  private put(question: string): void {
    const message: Message = { role: "user", text: question };
    this.current.messages.push(message);
    this.thread.add(message);
    void this.answer();
  }

  private edit(message: Message, text: string): void {
    const place = this.current.messages.indexOf(message);
    if (this.running || place < 0) return;
    this.cut(place);
    this.put(text);
    this.composer.focus();
  }

  private again(message: Message): void {
    const place = this.current.messages.indexOf(message);
    if (this.running || place < 0) return;
    const isInside = this.thread.element.contains(document.activeElement);
    this.cut(place);
    void this.answer();
    if (isInside) this.thread.focusLast(); // what was pressed is gone
  }

  /** Drops the messages from `place` on. */
  private cut(place: number): void {
    this.current.messages.splice(place);
    this.thread.show(this.current, this.about());
  }

  private async answer(): Promise<void> {
    const conversation = this.current;
    const message: Message = { role: "assistant", text: "" };
    conversation.messages.push(message);
    this.keep(conversation);
    this.thread.add(message, "coming");
    this.thread.scrollToEnd();
    await this.run(message, (signal) => answer(conversation, message, signal, () => this.thread.change(message)));
    this.doubt(message.problem);
    this.thread.finish(message);
    this.keep(conversation);
  }

  private async plain(message: Message): Promise<void> {
    if (this.running) return;
    const conversation = this.current;
    this.thread.finish(message, "checking");
    await this.run(message, (signal) => answerPlain(conversation, message, signal, () => undefined));
    this.doubt(message.plainProblem);
    this.thread.finish(message);
    this.keep(conversation);
  }

  /** The server may be gone: looks at once. */
  private doubt(problem: Problem | undefined): void {
    if (problem?.kind === "gone" || problem?.kind === "cut") void this.health.look();
  }

  private async run(message: Message, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const controller = new AbortController();
    this.running = controller;
    this.coming.add(message);
    this.composer.setBusy(true);
    try {
      await work(controller.signal);
    } finally {
      this.coming.delete(message);
      if (this.running === controller) this.running = null;
      this.composer.setBusy(this.running !== null);
    }
  }

  private stop(): void {
    this.running?.abort();
    this.running = null;
  }

  private keep(conversation: Conversation): void {
    this.store.keep(conversation);
    this.sidebar.show(this.current);
    this.showTitle();
  }

  private toggleTint(): void {
    preferences.tint = !preferences.tint;
    keepPreferences("tint");
    this.thread.rounds.hide();
    this.showToggles();
  }

  private nextTheme(): void {
    preferences.theme = themes[(themes.indexOf(preferences.theme) + 1) % themes.length];
    keepPreferences("theme");
    this.showToggles();
  }

  private showToggles(): void {
    this.tint.setAttribute("aria-pressed", String(preferences.tint));
    this.tint.title = `Tint what was guessed (t): ${preferences.tint ? "on" : "off"}`;
    this.theme.title = `Theme: ${preferences.theme}`;
    this.theme.setAttribute("aria-label", this.theme.title);
  }

  private onKey(event: KeyboardEvent): void {
    if (isComposing(event)) return;
    if (event.key === "Escape") return this.escape(event);
    if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const { studio } = this;
    const actions = { ...this.pageActions(), ...(studio && this.draws ? drawingActions(studio) : this.chatActions()) };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  private pageActions(): Record<string, () => void> {
    return {
      "?": () => this.help.open(this.draws),
      t: () => this.toggleTint(),
      l: () => this.live.toggle(),
      s: () => this.settingsPanel.open(this.draws),
      d: () => !this.viewSwitch.hidden && this.viewSwitch.click(),
    };
  }

  private chatActions(): Record<string, () => void> {
    const last = this.current.messages.at(-1);
    return {
      "/": () => this.composer.focus(),
      n: () => this.begin(),
      r: () => last?.role === "assistant" && this.again(last),
      c: () => last && isWhole(last) && void this.plain(last),
    };
  }

  private escape(event: KeyboardEvent): void {
    if (document.querySelector("dialog[open]")) return;
    if (this.studio && this.draws) return this.escapeStudio(this.studio, event);
    if (this.thread.rounds.isShown) this.thread.rounds.hide();
    else if (document.body.classList.contains("sidebar-open")) this.sidebar.toggle(false);
    else if (this.running) this.stop();
    else if (isTyping(event)) (event.target as HTMLElement).blur();
    else this.composer.focus();
  }

  private escapeStudio(studio: Studio, event: KeyboardEvent): void {
    if (studio.isRunning) studio.stop();
    else if (isTyping(event)) (event.target as HTMLElement).blur();
    else studio.focus();
  }
}

function drawingActions(studio: Studio): Record<string, () => void> {
  return { "/": () => studio.focus(), r: () => studio.again(), c: () => studio.compare() };
}
