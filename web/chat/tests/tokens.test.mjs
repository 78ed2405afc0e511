// The places of tokens in what a model says. usage: node --test tests/tokens.test.mjs
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import ts from "typescript";

const source = readFileSync(new URL("../src/tokens.ts", import.meta.url), "utf8");
const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
const { outputText } = ts.transpileModule(source, { compilerOptions });
const { PartPlace, tokenSpans } = await import(`data:text/javascript,${encodeURIComponent(outputText)}`);

const round = (...texts) => ({ texts, bytes: texts.map((text) => Buffer.byteLength(text)), accepted: texts.length - 1, draft_ms: 0, check_ms: 0 });

/** The words of `text` by token: [text, round]. */
function words(text, rounds, from) {
  let begin = 0;
  return tokenSpans(text, rounds, from).map(({ end, round: number }) => {
    const word = text.slice(begin, end);
    begin = end;
    return [word, number];
  });
}

test("tokens of an answer without a thought are those of all rounds", () => {
  assert.deepEqual(words("Yes, é!", [round("Yes"), round(",", " é", "!")]), [["Yes", 0], [",", 1], [" é", 1], ["!", 1]]);
  assert.deepEqual(words("Yes, I", [round(" Yes"), round(",", " I")]), [["Yes", 0], [",", 1], [" I", 1]]);
});

test("tokens of an answer begin behind those of the thought", () => {
  const rounds = [round("<think>", "\n"), round("Hm", ", é", "."), round("\n", "</think>", "\n\n", "Four"), round(",", " I say", "<|im_end|>")];
  const place = new PartPlace();
  place.add("", rounds.slice(0, 2));
  assert.equal(place.from, undefined);
  place.add("Four", [rounds[2]]);
  place.add(", I say", [rounds[3]]);
  assert.deepEqual(words("Four, I say", rounds, place.from), [["Four", 2], [",", 3], [" I say", 3]]);
  const thought = new PartPlace();
  thought.add("", [rounds[0]]);
  thought.add("Hm, é.", [rounds[1]]);
  assert.deepEqual(words("Hm, é.", rounds, thought.from), [["Hm", 1], [", é", 1], [".", 1]]);
});

test("text that is held back for a while moves no token", () => {
  const rounds = [round("<think>", "a", "</think>"), round("Is", " <"), round("b", ">"), round("!", "\n")];
  const place = new PartPlace();
  place.add("", [rounds[0]]);
  place.add("Is", [rounds[1]]);
  place.add(" <b>", [rounds[2]]);
  place.add("!", [rounds[3]]);
  assert.deepEqual(words("Is <b>!", rounds, place.from), [["Is", 1], [" <", 1], ["b", 2], [">", 2], ["!", 3]]);
});

test("the token that ends an answer of one piece is none of its text", () => {
  const rounds = [round("a", "</think>"), round("\n\n", "4", "<|im_end|>")];
  const place = new PartPlace();
  place.add("4", rounds);
  place.look(Buffer.byteLength("<|im_end|>"));
  assert.deepEqual(words("4", rounds, place.from), [["4", 1]]);
  assert.equal(tokenSpans("4", rounds, place.from)[0].kept, true);
});
