import { ask, RequestError, type Asked, type ChatMessage, type Piece } from "./api";
import { settingsNow, type Conversation, type Message } from "./store";

/** Called when something of a message changed. */
export type Listener = (message: Message) => void;

function messagesBefore(conversation: Conversation, message: Message): ChatMessage[] {
  const end = conversation.messages.indexOf(message);
  return conversation.messages
    .slice(0, end)
    .filter((each) => each.text)
    .map((each) => ({ role: each.role, content: each.text }));
}

function add(message: Message, piece: Piece): void {
  message.text += piece.text;
  if (piece.rounds.length > 0) (message.rounds ??= []).push(...piece.rounds);
  if (piece.finish) message.finish = piece.finish;
  if (piece.timings) message.timings = piece.timings;
  if (piece.drafter) message.drafter = piece.drafter;
  if (piece.seed !== undefined && message.settings) message.settings.seed = String(piece.seed);
}

/** Fills an empty answer at the end of the conversation. What goes wrong is noted in it. */
export async function answer(conversation: Conversation, message: Message, signal: AbortSignal, changed: Listener): Promise<void> {
  message.settings = settingsNow();
  const asked: Asked = { settings: message.settings, messages: messagesBefore(conversation, message), trace: true };
  await receive(message, asked, signal, changed);
}

/** Asks what `message` answers once more, without drafts, and says in `message` what came of it. */
export async function answerPlain(conversation: Conversation, message: Message, signal: AbortSignal, changed: Listener): Promise<void> {
  const settings = { ...(message.settings ?? settingsNow()), drafter: "none", policy: "" };
  const plain: Message = { role: "assistant", text: "" };
  const asked: Asked = { settings, messages: messagesBefore(conversation, message), trace: false };
  await receive(plain, asked, signal, changed);
  if (plain.problem || plain.stopped || !plain.timings) return;
  const bytes = (text: string) => new TextEncoder().encode(text);
  const [ours, theirs] = [bytes(message.text), bytes(plain.text)];
  const equal = ours.length === theirs.length && ours.every((byte, i) => byte === theirs[i]);
  message.plain = { perSecond: plain.timings.predicted_per_second, bytes: theirs.length, equal };
}

async function receive(message: Message, asked: Asked, signal: AbortSignal, changed: Listener): Promise<void> {
  try {
    for await (const piece of ask(asked, signal)) {
      add(message, piece);
      changed(message);
    }
  } catch (error) {
    if (signal.aborted) message.stopped = true;
    else if (error instanceof RequestError) message.problem = error.problem;
    else message.problem = { kind: "failed", message: String(error) };
  }
  changed(message);
}
