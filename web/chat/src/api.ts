import { preferences, type Settings } from "./settings";

/** A tree of guesses, as it was checked: node 0 is the last token of the text before it. */
export interface Tree {
  texts: string[];
  parents: number[];
  p: number[];
  /** Nodes that became text, the root first. */
  path: number[];
}

/** How some tokens of an answer came about: `accepted` of the first of them had been guessed. */
export interface Round {
  texts: string[];
  bytes: number[];
  accepted: number;
  draft_ms: number;
  check_ms: number;
  tree?: Tree;
}

export interface Timings {
  prompt_n: number;
  cache_n: number;
  prompt_ms: number;
  predicted_n: number;
  predicted_per_second: number;
  draft_n: number;
  draft_n_accepted: number;
}

export interface ChatMessage {
  role: "system" | "user" | "assistant";
  content: string;
}

/** What came with one event of a stream. */
export interface Piece {
  text: string;
  /** What the model thought before its text. */
  thought: string;
  rounds: Round[];
  finish: string | null;
  timings?: Timings;
  seed?: number;
  drafter?: string;
  ended?: string;
}

export type ProblemKind = "gone" | "busy" | "ending" | "key" | "refused" | "failed" | "cut";

export interface Problem {
  kind: ProblemKind;
  message: string;
  /** Seconds that the server asks for. */
  wait?: number;
}

export class RequestError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.message);
  }
}

const titles: Record<ProblemKind, string> = {
  gone: "The server does not answer",
  busy: "The server is busy",
  ending: "The server is shutting down",
  key: "This server asks for a key",
  refused: "The server refused this",
  failed: "The answer failed",
  cut: "The answer broke off",
};
export const titleOf = (problem: Problem): string => titles[problem.kind];

/** A text as headers take it: a character for each byte of its UTF-8. */
const inBytes = (text: string): string => String.fromCharCode(...new TextEncoder().encode(text));

function headers(): Record<string, string> {
  const own: Record<string, string> = { "Content-Type": "application/json" };
  if (preferences.key) own.Authorization = `Bearer ${inBytes(preferences.key)}`;
  return own;
}

export async function request(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { headers: headers(), ...init });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new RequestError({ kind: "gone", message: "It may have been stopped, or the network is away." });
  }
  if (!response.ok) throw new RequestError(await problemOf(response));
  return response;
}

async function problemOf(response: Response): Promise<Problem> {
  const body = (await response.json().catch(() => null)) as { error?: { message?: string; code?: string | null } } | null;
  // A proxy that finds no server has these, in words of its own.
  const isProxy = !body && [502, 503, 504].includes(response.status);
  const kinds: Record<number, ProblemKind> = { 401: "key", 429: "busy", 503: "ending", 500: "failed" };
  const words = response.status === 413 ? "What was sent is larger than it takes." : `HTTP status ${response.status}`;
  const message = body?.error?.message ?? words;
  const wait = Number(response.headers.get("Retry-After")) || undefined;
  const isBusy = ["busy", "out_of_memory"].includes(body?.error?.code ?? ""); // it stays, and has a 503, too
  const kind = isProxy ? "gone" : isBusy ? "busy" : (kinds[response.status] ?? "refused");
  return { kind, message, wait };
}

export async function getJson<Value>(path: string, signal?: AbortSignal): Promise<Value> {
  return (await request(path, { signal })).json() as Promise<Value>;
}

export interface Asked {
  settings: Settings;
  messages: ChatMessage[];
  trace: boolean;
}

export function bodyOf({ settings, messages, trace }: Asked): Record<string, unknown> {
  const talon: Record<string, unknown> = {};
  if (settings.drafter) talon.drafter = settings.drafter;
  if (settings.policy) talon.policy = settings.policy;
  if (trace) talon.trace = true;
  const system: ChatMessage[] = settings.system.trim() ? [{ role: "system", content: settings.system }] : [];
  return {
    model: settings.model || undefined,
    messages: [...system, ...messages],
    temperature: settings.temperature,
    top_p: settings.topP,
    max_tokens: settings.maxTokens ? Number(settings.maxTokens) : undefined,
    seed: settings.seed ? Number(settings.seed) : undefined,
    stream: true,
    stream_options: { include_usage: true },
    talon,
  };
}

/** Asks, and gives what comes as it comes. Throws RequestError, or AbortError when stopped. */
export async function* ask(asked: Asked, signal: AbortSignal): AsyncGenerator<Piece> {
  const response = await request("/v1/chat/completions", { method: "POST", body: JSON.stringify(bodyOf(asked)), signal });
  for await (const data of events(response, signal)) {
    if (data === "[DONE]") return;
    yield pieceOf(JSON.parse(data) as Chunk);
  }
  throw new RequestError({ kind: "cut", message: "The connection ended before the answer did." });
}

interface Chunk {
  error?: { message: string };
  choices?: { delta?: { content?: string | null; reasoning_content?: string }; finish_reason?: string | null; talon?: { rounds?: Round[] } }[];
  timings?: Timings;
  talon?: { seed?: number; drafter?: string; ended?: string };
}

function pieceOf(chunk: Chunk): Piece {
  if (chunk.error) throw new RequestError({ kind: "failed", message: chunk.error.message });
  const choice = chunk.choices?.[0];
  return {
    text: choice?.delta?.content ?? "",
    thought: choice?.delta?.reasoning_content ?? "",
    rounds: choice?.talon?.rounds ?? [],
    finish: choice?.finish_reason ?? null,
    timings: chunk.timings,
    seed: chunk.talon?.seed,
    drafter: chunk.talon?.drafter,
    ended: chunk.talon?.ended,
  };
}

/** The data of server-sent events. */
export async function* events(response: Response, signal: AbortSignal): AsyncGenerator<string> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let pending = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error: unknown) => {
      if (signal.aborted) throw error;
      throw new RequestError({ kind: "cut", message: "The connection broke before the answer was complete." });
    });
    if (done) return;
    pending += decoder.decode(value, { stream: true });
    const parts = pending.split("\n\n");
    pending = parts.pop() ?? "";
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (data) yield data;
    }
  }
}
