import type { Round } from "./api";

/** Where a token of an answer ends in its text, and how it came about. */
export interface TokenSpan {
  end: number;
  round: number;
  /** It had been guessed, and the model agreed. */
  kept: boolean;
}

function utf8Length(code: number): number {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

export function bytesOf(text: string): number {
  let bytes = 0;
  for (const char of text) bytes += utf8Length(char.codePointAt(0) as number);
  return bytes;
}

/**
 * Finds how many bytes of a stream's tokens stand before one part of what they say: marks of a thought, the thought,
 * space between. Text may come later than its tokens, never before them, so the least that was seen is it.
 */
export class PartPlace {
  private tokens = 0;
  private part = 0;
  from: number | undefined;

  /** rounds: what came with `text`, or before it for other parts. */
  add(text: string, rounds: Round[]): void {
    for (const round of rounds) for (const count of round.bytes) this.tokens += count;
    if (!text) return;
    this.part += bytesOf(text);
    this.look(0);
  }

  /** after: bytes at the end that are never text, as those of the token that ends an answer. */
  look(after: number): void {
    if (this.part > 0) this.from = Math.max(0, Math.min(this.from ?? Infinity, this.tokens - after - this.part));
  }
}

/**
 * The tokens of a text in its UTF-16 units. Rounds tell lengths in bytes of UTF-8; a character that several tokens
 * make belongs to the first. Tokens whose text has not come yet, or that have none, are not there.
 * from: bytes of tokens before the text (PartPlace).
 */
export function tokenSpans(text: string, rounds: Round[], from?: number): TokenSpan[] {
  const spans: TokenSpan[] = [];
  let wanted = -(from ?? 0);
  let bytes = 0;
  let place = 0;
  // Tokenizers that write a space before each word take it from the first.
  if (from === undefined && rounds[0]?.texts[0]?.startsWith(" ") && !text.startsWith(" ")) wanted = -1;
  rounds.forEach((round, index) => {
    round.bytes.forEach((count, i) => {
      wanted += count;
      const begin = place;
      while (bytes < wanted && place < text.length) {
        const code = text.codePointAt(place) as number;
        bytes += utf8Length(code);
        place += code > 0xffff ? 2 : 1;
      }
      if (place > begin) spans.push({ end: place, round: index, kept: i < round.accepted });
    });
  });
  return spans;
}

/**
 * Where each character of `rendered` stands in `source`, which it is a part of but for marks: -1 if nowhere. Space at
 * its ends may be the renderer's own.
 */
export function placesIn(source: string, rendered: string, from: number): number[] {
  const words = rendered.trim();
  const before = rendered.indexOf(words);
  const whole = source.indexOf(words, from);
  if (whole >= 0) return Array.from({ length: rendered.length }, (_, i) => (source[whole + i - before] === rendered[i] ? whole + i - before : -1));
  const places: number[] = [];
  let cursor = from;
  for (const char of rendered.split("")) {
    const found = /\s/.test(char) ? (source[cursor] === char ? cursor : -1) : source.indexOf(char, cursor);
    places.push(found);
    if (found >= 0) cursor = found + 1;
  }
  return places;
}

/**
 * Wraps the text below `block`, which shows source[begin, end), into an element for each token. The tokens' numbers
 * are in data-token and data-round.
 */
export function wrapTokens(block: HTMLElement, source: string, begin: number, end: number, spans: TokenSpan[]): void {
  const part = source.slice(begin, end);
  const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
  const nodes: Text[] = [];
  while (walker.nextNode()) nodes.push(walker.currentNode as Text);
  let cursor = 0;
  for (const node of nodes) {
    if (!node.data.trim() || node.parentElement?.closest("[data-no-tokens]")) continue;
    const places = placesIn(part, node.data, cursor);
    const last = places.findLast((place) => place >= 0);
    if (last !== undefined) cursor = last + 1;
    node.replaceWith(...pieces(node.data, places.map((place) => (place < 0 ? -1 : begin + place)), spans));
  }
}

function pieces(text: string, places: number[], spans: TokenSpan[]): (HTMLElement | string)[] {
  const result: (HTMLElement | string)[] = [];
  let begin = 0;
  let token = indexAt(spans, places[0] ?? 0);
  for (let i = 1; i <= text.length; ++i) {
    const next = i < text.length ? indexAt(spans, places[i] < 0 ? places[i - 1] : places[i], token) : -2;
    if (next === token && i < text.length) continue;
    const words = text.slice(begin, i);
    if (token >= 0 && token < spans.length) result.push(...tokenElements(words, token, spans));
    else result.push(words);
    begin = i;
    token = next;
  }
  return result;
}

/** A run of guesses has no tint on the space before it. */
function tokenElements(words: string, index: number, spans: TokenSpan[]): HTMLElement[] {
  const { kept, round } = spans[index];
  const element = (text: string, name: string): HTMLElement => {
    const span = document.createElement("span");
    span.className = name;
    span.dataset.round = String(round);
    span.textContent = text;
    return span;
  };
  if (!kept) return [element(words, "token")];
  const isFirst = !spans[index - 1]?.kept;
  const isLast = !spans[index + 1]?.kept;
  const name = `token kept${isFirst ? " first" : ""}${isLast ? " last" : ""}`;
  const space = isFirst ? (/^\s+/.exec(words)?.[0] ?? "") : "";
  if (!space || space === words) return [element(words, space ? "token" : name)];
  return [element(space, "token"), element(words.slice(space.length), name)];
}

/** The token that the character at `place` belongs to; from: one that is not behind it. */
export function indexAt(spans: TokenSpan[], place: number, from = 0): number {
  let low = Math.max(0, from);
  if (low > 0 && low < spans.length && spans[low - 1].end > place) low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].end <= place) low = middle + 1;
    else high = middle;
  }
  return low;
}
