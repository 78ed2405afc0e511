import { ask, RequestError, type Asked, type ChatMessage, type Piece } from "./api";
import { settingsNow, type Conversation, type Message } from "./store";
import { bytesOf, PartPlace } from "./tokens";

/** Called when something of a message changed. */
export type Listener = (message: Message) => void;

/**
 * Thoughts are left out: templates drop those of earlier answers. So are questions that got no answer: many templates
 * want questions and answers by turns.
 */
function messagesBefore(conversation: Conversation, message: Message): ChatMessage[] {
  const all = conversation.messages.slice(0, conversation.messages.indexOf(message));
  const isAnswered = (i: number) => i + 1 === all.length || (all[i + 1].role === "assistant" && all[i + 1].text);
  return all
    .filter((each, i) => each.text && (each.role === "assistant" || isAnswered(i)))
    .map((each) => ({ role: each.role, content: each.text }));
}

interface Places {
  thought: PartPlace;
  text: PartPlace;
}

function add(message: Message, piece: Piece, places: Places): void {
  message.text += piece.text;
  if (piece.thought) message.thought = (message.thought ?? "") + piece.thought;
  if (piece.rounds.length > 0) (message.rounds ??= []).push(...piece.rounds);
  places.thought.add(piece.thought, piece.rounds);
  places.text.add(piece.text, piece.rounds);
  if (piece.finish === "stop") places.text.look(message.rounds?.at(-1)?.bytes.at(-1) ?? 0);
  message.thoughtFrom = places.thought.from;
  message.textFrom = places.text.from;
  if (piece.finish) message.finish = piece.finish;
  if (piece.timings) message.timings = piece.timings;
  if (piece.ended) message.ended = piece.ended;
  if (piece.drafter) message.drafter = piece.drafter;
  if (piece.seed !== undefined && message.settings) message.settings.seed = String(piece.seed);
}

/** Fills an empty answer at the end of the conversation. What goes wrong is noted in it. */
export async function answer(conversation: Conversation, message: Message, signal: AbortSignal, changed: Listener): Promise<void> {
  message.settings = settingsNow();
  const asked: Asked = { settings: message.settings, messages: messagesBefore(conversation, message), trace: true };
  await receive(message, asked, signal, changed);
}

/** Whether it can be compared with what is said without drafts. */
export const isWhole = (message: Message): boolean => Boolean(message.finish && message.timings && !message.problem && !message.ended);

/** Why the server ended an answer, as `talon.ended` names it. */
export function wordsFor(ended: string): string {
  const words: Record<string, string> = {
    cancelled: "Cut: the server was shut down.",
    deadline: "Cut: it took longer than the server allows.",
    no_room: "Cut: the server had no room for more.",
  };
  return words[ended] ?? `Cut by the server: ${ended}.`;
}

/** Asks what `message` answers once more, without drafts, and says in `message` what came of it. */
export async function answerPlain(conversation: Conversation, message: Message, signal: AbortSignal, changed: Listener): Promise<void> {
  const settings = { ...(message.settings ?? settingsNow()), drafter: "none", policy: "" };
  const plain: Message = { role: "assistant", text: "" };
  const asked: Asked = { settings, messages: messagesBefore(conversation, message), trace: false };
  await receive(plain, asked, signal, changed);
  message.plainProblem = plain.problem ?? (plain.ended ? { kind: "cut", message: wordsFor(plain.ended) } : undefined);
  if (message.plainProblem || plain.stopped || !plain.timings) return;
  const thought = plain.thought ?? "";
  const equal = message.text === plain.text && (message.thought ?? "") === thought;
  message.plain = { perSecond: plain.timings.predicted_per_second, bytes: bytesOf(thought + plain.text), equal };
}

async function receive(message: Message, asked: Asked, signal: AbortSignal, changed: Listener): Promise<void> {
  const places = { thought: new PartPlace(), text: new PartPlace() };
  try {
    for await (const piece of ask(asked, signal)) {
      add(message, piece, places);
      changed(message);
    }
  } catch (error) {
    if (signal.aborted) message.stopped = true;
    else if (error instanceof RequestError) message.problem = error.problem;
    else message.problem = { kind: "failed", message: String(error) };
  }
  changed(message);
}
