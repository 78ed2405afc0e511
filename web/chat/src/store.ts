import type { Problem, Round, Timings } from "./api";
import { settings, type Settings } from "./settings";

/** The same question asked without drafts. */
export interface Plain {
  perSecond: number;
  bytes: number;
  equal: boolean;
}

export interface Message {
  role: "user" | "assistant";
  text: string;
  /** What the model thought before its text: shown, and not sent again. */
  thought?: string;
  rounds?: Round[];
  /** Bytes that rounds brought before the text, and before the thought. */
  textFrom?: number;
  thoughtFrom?: number;
  timings?: Timings;
  drafter?: string;
  finish?: string;
  stopped?: boolean;
  problem?: Problem;
  /** With which it was asked, the seed among them. */
  settings?: Settings;
  /** Why the server ended it before its text or length did. */
  ended?: string;
  plain?: Plain;
  /** What the same without drafts failed with. */
  plainProblem?: Problem;
}

export interface Conversation {
  id: string;
  title: string;
  changed: number;
  messages: Message[];
  /** Of several that two tabs made of one: 2 and on. */
  branch?: number;
  /** Names of the times it was stored, the last at the end: whether another tab knew what it wrote over. */
  versions?: string[];
}

export interface StoreActions {
  /** Something of it is under way here: what other tabs make of it waits. */
  isHeld(conversation: Conversation): boolean;
  /** Another tab changed, added or removed it. */
  changed(conversation: Conversation): void;
  /** Another tab went on with it, too: here it is one of its own from now on. */
  parted(conversation: Conversation): void;
}

const prefix = "talon-chat-";
const mostVersions = 200;
/** Trees are seen while the page is open; kept are texts and which tokens were guessed. */
const passing = ["tree", "plainProblem"];

function compact(value: object, left = passing): string {
  return JSON.stringify(value, (key, part: unknown) => (left.includes(key) ? undefined : part));
}

const newName = (): string => Math.random().toString(36).slice(2, 10);
const newId = (): string => Date.now().toString(36) + newName();
const latest = ({ versions }: Conversation): string | undefined => versions?.at(-1);
const isMessage = (message: Message | null): boolean => typeof message?.text === "string";

function storedIds(): string[] {
  const keys = Array.from({ length: localStorage.length }, (_, i) => localStorage.key(i) ?? "");
  return keys.filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length));
}

/** What is stored now, by whichever tab. null: nothing; undefined: damaged by someone else, and left alone. */
function find(id: string): Conversation | null | undefined {
  try {
    const text = localStorage.getItem(prefix + id);
    if (text === null) return null;
    const found = JSON.parse(text) as Conversation | null;
    return found && Array.isArray(found.messages) && found.messages.every(isMessage) ? { ...found, id } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The conversations, in memory and in the browser. Tabs share what is stored: each takes over what another wrote, and
 * where two went on from the same, both are kept.
 */
export class Store {
  readonly conversations: Conversation[] = [];
  /** Whether the browser has room, and keeps anything at all. */
  isKept = true;
  private readonly stored = new Set<Conversation>();
  /** There was no room for what they are now. */
  private readonly unsaved = new Set<Conversation>();

  constructor(private readonly actions: StoreActions) {
    try {
      for (const id of storedIds()) this.add(find(id));
    } catch {
      this.isKept = false;
    }
    this.sort();
    addEventListener("storage", ({ key }) => {
      if (key === null) this.lookAtAll();
      else if (key.startsWith(prefix)) this.look(key.slice(prefix.length));
    });
    // A page that was put aside heard nothing meanwhile.
    addEventListener("pageshow", ({ persisted }) => persisted && this.lookAtAll());
  }

  /** A new one, which is kept from its first message on. */
  begin(): Conversation {
    const empty = this.conversations.find((each) => each.messages.length === 0);
    if (empty) return empty;
    const conversation: Conversation = { id: newId(), title: "", changed: Date.now(), messages: [] };
    this.conversations.unshift(conversation);
    return conversation;
  }

  /** Does nothing with one that was removed. */
  keep(conversation: Conversation): void {
    if (!this.conversations.includes(conversation)) return;
    const found = find(conversation.id);
    if (found && latest(found) !== latest(conversation)) this.part(conversation, found);
    conversation.changed = Date.now();
    conversation.title = titleOf(conversation);
    this.sort();
    const versions = [...(conversation.versions ?? []), newName()].slice(-mostVersions);
    do this.isKept = this.write(conversation, versions);
    while (!this.isKept && this.forgetRounds(conversation));
    // Better without tints of its own than not at all.
    this.isKept ||= this.write(conversation, versions, [...passing, "rounds"]);
    if (!this.isKept) {
      this.unsaved.add(conversation);
      return;
    }
    conversation.versions = versions;
    this.stored.add(conversation);
    this.unsaved.delete(conversation);
  }

  remove(conversation: Conversation): void {
    this.drop(conversation);
    try {
      localStorage.removeItem(prefix + conversation.id);
    } catch {
      // A browser that keeps nothing.
    }
  }

  /** Follows what other tabs made of one. One that is held is looked at when it is kept. */
  look(id: string): void {
    const own = this.conversations.find((each) => each.id === id);
    if (own && this.actions.isHeld(own)) return;
    const found = find(id);
    if (found === undefined || (own && found && latest(own) === latest(found))) return;
    if (!found) {
      if (!own || !this.stored.has(own) || this.unsaved.has(own)) return;
      this.drop(own);
      return this.actions.changed(own);
    }
    const isKnown = own && (latest(own) === undefined || found.versions?.includes(latest(own) as string));
    if (!own) this.add(found);
    else if (isKnown && !this.unsaved.has(own)) this.replace(own, found);
    else this.keep(own); // which parts them
    this.sort();
    this.actions.changed(this.conversations.find((each) => each.id === id) ?? found);
  }

  private lookAtAll(): void {
    try {
      for (const id of new Set([...this.conversations.map((each) => each.id), ...storedIds()])) this.look(id);
    } catch {
      // A browser that keeps nothing.
    }
  }

  private add(found: Conversation | null | undefined): void {
    if (!found) return;
    this.conversations.push(found);
    this.stored.add(found);
  }

  private drop(conversation: Conversation): void {
    const place = this.conversations.indexOf(conversation);
    if (place >= 0) this.conversations.splice(place, 1);
    this.stored.delete(conversation);
  }

  /** Messages that are as they were stay, with their trees. */
  private replace(own: Conversation, found: Conversation): void {
    const messages = found.messages.map((message, i) => {
      const before = own.messages[i] as Message | undefined;
      return before && compact(before) === compact(message) ? before : message;
    });
    Object.assign(own, found, { messages });
  }

  private part(conversation: Conversation, found: Conversation): void {
    conversation.id = newId();
    conversation.branch = (conversation.branch ?? 1) + 1;
    conversation.versions = undefined;
    this.stored.delete(conversation);
    this.add(found);
    this.actions.parted(conversation);
  }

  private write(conversation: Conversation, versions: string[] | undefined, left = passing): boolean {
    try {
      localStorage.setItem(prefix + conversation.id, compact({ ...conversation, versions }, left));
      return true;
    } catch {
      return false;
    }
  }

  /** Makes room: the oldest stored conversation that has tints loses them. False if none has. */
  private forgetRounds(but: Conversation): boolean {
    const hasTints = (each: Conversation) => this.stored.has(each) && each.messages.some((message) => message.rounds);
    const oldest = this.conversations.findLast((each) => each !== but && !this.unsaved.has(each) && hasTints(each));
    if (!oldest) return false;
    for (const message of oldest.messages) delete message.rounds;
    // Under its old version: it says nothing new. What another tab wrote meanwhile stays.
    const found = find(oldest.id);
    if (found && latest(found) === latest(oldest)) this.write(oldest, oldest.versions);
    return true;
  }

  private sort(): void {
    this.conversations.sort((a, b) => b.changed - a.changed);
  }
}

function titleOf(conversation: Conversation): string {
  const first = conversation.messages.find((message) => message.role === "user")?.text.trim() ?? "";
  const line = first.split("\n")[0];
  const short = line.length > 60 ? `${line.slice(0, 58)}…` : line;
  return conversation.branch ? `${short} (${conversation.branch})` : short;
}

/** The settings for an answer, of which later changes are no part. */
export const settingsNow = (): Settings => ({ ...settings });
