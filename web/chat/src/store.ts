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
}

const prefix = "talon-chat-";

/** Trees are seen while the page is open; kept are texts and which tokens were guessed. */
function compact(conversation: Conversation): string {
  return JSON.stringify(conversation, (key, value: unknown) => (key === "tree" || key === "plainProblem" ? undefined : value));
}

export class Store {
  readonly conversations: Conversation[] = [];
  /** Whether the browser has room, and keeps anything at all. */
  isKept = true;
  private readonly stored = new Set<Conversation>();

  constructor() {
    try {
      this.read();
    } catch {
      this.isKept = false;
    }
    this.sort();
  }

  private read(): void {
    for (let i = 0; i < localStorage.length; ++i) {
      const key = localStorage.key(i) ?? "";
      if (!key.startsWith(prefix)) continue;
      try {
        const found = JSON.parse(localStorage.getItem(key) ?? "") as Conversation;
        if (!found.id || !Array.isArray(found.messages)) continue;
        // The page was left while the answer came.
        const last = found.messages.at(-1);
        if (last?.role === "assistant" && !last.finish && !last.problem) last.stopped = true;
        this.conversations.push(found);
        this.stored.add(found);
      } catch {
        // Damaged by someone else: left alone.
      }
    }
  }

  /** A new one, which is kept from its first message on. */
  begin(): Conversation {
    const empty = this.conversations.find((each) => each.messages.length === 0);
    if (empty) return empty;
    const id = `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;
    const conversation: Conversation = { id, title: "", changed: Date.now(), messages: [] };
    this.conversations.unshift(conversation);
    return conversation;
  }

  /** Does nothing with one that was removed. */
  keep(conversation: Conversation): void {
    if (!this.conversations.includes(conversation)) return;
    conversation.changed = Date.now();
    conversation.title = titleOf(conversation);
    this.sort();
    do this.isKept = this.write(conversation);
    while (!this.isKept && this.forgetRounds(conversation));
  }

  remove(conversation: Conversation): void {
    this.conversations.splice(this.conversations.indexOf(conversation), 1);
    try {
      localStorage.removeItem(prefix + conversation.id);
    } catch {
      // A browser that keeps nothing.
    }
  }

  private write(conversation: Conversation): boolean {
    try {
      localStorage.setItem(prefix + conversation.id, compact(conversation));
      this.stored.add(conversation);
      return true;
    } catch {
      return false;
    }
  }

  /** Makes room: the oldest stored conversation that has tints loses them. False if none has. */
  private forgetRounds(but: Conversation): boolean {
    const oldest = this.conversations.findLast((each) => each !== but && this.stored.has(each) && each.messages.some((message) => message.rounds));
    if (!oldest) return false;
    for (const message of oldest.messages) delete message.rounds;
    this.write(oldest);
    return true;
  }

  private sort(): void {
    this.conversations.sort((a, b) => b.changed - a.changed);
  }
}

function titleOf(conversation: Conversation): string {
  const first = conversation.messages.find((message) => message.role === "user")?.text.trim() ?? "";
  const line = first.split("\n")[0];
  return line.length > 60 ? `${line.slice(0, 58)}…` : line;
}

/** The settings for an answer, of which later changes are no part. */
export const settingsNow = (): Settings => ({ ...settings });
