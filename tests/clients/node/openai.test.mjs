// OpenAI's client: chats, streams, tools, schemas, log-probabilities, several choices, responses, errors.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { ADDRESS, CITIES, KEY, MESSAGES, PARAMETERS, all } from './ask.mjs';

const client = new OpenAI({ baseURL: `${ADDRESS}/v1`, apiKey: KEY, maxRetries: 0 });
const ASK = { model: 'model', messages: MESSAGES, max_tokens: 24, temperature: 0 };
const TOOL = { type: 'function', function: { name: 'weather', description: 'Tells the weather.', parameters: PARAMETERS } };
const CALL = { ...ASK, max_tokens: 64, tools: [TOOL], tool_choice: 'required', parallel_tool_calls: false };
const Animal = z.object({ kind: z.string().max(20), legs: z.number().int(), wild: z.boolean() });

test('a stream joins to the whole', async () => {
  const whole = await client.chat.completions.create(ASK);
  const pieces = await all(await client.chat.completions.create({ ...ASK, stream: true, stream_options: { include_usage: true } }));
  const text = pieces.map((piece) => piece.choices[0]?.delta.content ?? '').join('');
  assert.equal(text, whole.choices[0].message.content);
  assert.deepEqual(pieces.at(-1).usage.completion_tokens, whole.usage.completion_tokens);
  assert.equal(pieces.at(-2).choices[0].finish_reason, whole.choices[0].finish_reason);
});

test("the stream helper's answer is the whole", async () => {
  const stream = client.chat.completions.stream(ASK);
  let text = '';
  stream.on('content', (delta) => (text += delta));
  const final = await stream.finalChatCompletion();
  assert.equal(text, final.choices[0].message.content);
  assert.equal(text, (await client.chat.completions.create(ASK)).choices[0].message.content);
});

test('a stream that is left ends, and the server goes on', async () => {
  const stream = await client.chat.completions.create({ ...ASK, max_tokens: 2000, stream: true, ignore_eos: true });
  for await (const piece of stream) {
    if (piece.choices[0].delta.content) break;
  }
  assert.ok((await client.chat.completions.create(ASK)).choices[0].message.content);
});

test('log-probabilities and several choices', async () => {
  const answer = await client.chat.completions.create({ ...ASK, temperature: 1, seed: 3, n: 3, logprobs: true, top_logprobs: 2 });
  assert.deepEqual(answer.choices.map((choice) => choice.index), [0, 1, 2]);
  assert.equal(new Set(answer.choices.map((choice) => choice.message.content)).size, 3);
  for (const choice of answer.choices) {
    const tokens = choice.logprobs.content;
    assert.ok(tokens.map((token) => token.token).join('').startsWith(choice.message.content));
    for (const token of tokens) {
      assert.ok(token.logprob <= 0);
      assert.equal(token.top_logprobs.length, 2);
      assert.ok(token.top_logprobs[0].logprob >= token.logprob);
    }
  }
  const plain = { ...ASK, logprobs: true, top_logprobs: 2 };
  const [first, second] = await Promise.all(
    ['none', 'suffix'].map((drafter) => client.chat.completions.create({ ...plain, talon: { drafter } })));
  assert.deepEqual(first.choices[0].logprobs, second.choices[0].logprobs);
});

test('several choices of one stream are those of the whole', async () => {
  const ask = { ...ASK, temperature: 1, seed: 3, n: 2 };
  const whole = await client.chat.completions.create(ask);
  const texts = ['', ''];
  for await (const piece of await client.chat.completions.create({ ...ask, stream: true })) {
    for (const choice of piece.choices) texts[choice.index] += choice.delta.content ?? '';
  }
  assert.deepEqual(texts, whole.choices.map((choice) => choice.message.content));
});

test('tools', async () => {
  const { message, finish_reason } = (await client.chat.completions.create(CALL)).choices[0];
  assert.equal(finish_reason, 'tool_calls');
  const [call] = message.tool_calls;
  assert.ok(CITIES.includes(JSON.parse(call.function.arguments).city));
  let [name, text] = ['', ''];
  for await (const piece of await client.chat.completions.create({ ...CALL, stream: true })) {
    for (const part of piece.choices[0].delta.tool_calls ?? []) {
      name += part.function.name ?? '';
      text += part.function.arguments ?? '';
    }
  }
  assert.deepEqual([name, text], [call.function.name, call.function.arguments]);
  const turns = [...MESSAGES, message, { role: 'tool', tool_call_id: call.id, content: 'warm' }];
  const answer = await client.chat.completions.create({ ...ASK, messages: turns, tools: [TOOL], tool_choice: 'none' });
  assert.ok(answer.choices[0].message.content);
});

test('the tool runner calls and goes on', async () => {
  const asked = [];
  const weather = { ...TOOL.function, parse: JSON.parse, function: ({ city }) => { asked.push(city); return 'warm'; } };
  const runner = client.chat.completions.runTools(
    { ...CALL, tools: [{ type: 'function', function: weather }] }, { maxChatCompletions: 2 });
  await runner.done();
  assert.ok(asked.length >= 1 && asked.every((city) => CITIES.includes(city)));
});

test('schemas', async () => {
  const answer = await client.chat.completions.parse({ ...ASK, max_tokens: 100, response_format: zodResponseFormat(Animal, 'animal') });
  assert.ok(Animal.safeParse(answer.choices[0].message.parsed).success);
  const object = await client.chat.completions.create({ ...ASK, max_tokens: 100, stop: ['}'], response_format: { type: 'json_object' } });
  assert.ok(object.choices[0].message.content.startsWith('{'));
});

test('responses: text, streams, tools, schemas', async () => {
  const ask = { model: 'model', input: MESSAGES, max_output_tokens: 24, temperature: 0 };
  const whole = await client.responses.create(ask);
  assert.equal(whole.output_text, (await client.chat.completions.create(ASK)).choices[0].message.content);
  const stream = client.responses.stream(ask);
  let text = '';
  stream.on('response.output_text.delta', (event) => (text += event.delta));
  assert.equal((await stream.finalResponse()).output_text, whole.output_text);
  assert.equal(text, whole.output_text);
  const tool = { type: 'function', name: 'weather', parameters: PARAMETERS, strict: true };
  const called = await client.responses.create(
    { ...ask, max_output_tokens: 64, tools: [tool], tool_choice: 'required', parallel_tool_calls: false });
  assert.ok(CITIES.includes(JSON.parse(called.output[0].arguments).city));
  const parsed = await client.responses.parse({ ...ask, max_output_tokens: 100, text: { format: zodTextFormat(Animal, 'animal') } });
  assert.ok(Animal.safeParse(parsed.output_parsed).success);
});

test('completions and models', async () => {
  const answer = await client.completions.create({ model: 'model', prompt: 'Once upon', max_tokens: 8, logprobs: 1 });
  assert.equal(answer.usage.completion_tokens, 8);
  assert.equal(answer.choices[0].logprobs.tokens.length, 8);
  assert.deepEqual((await all(client.models.list())).map((model) => model.id), ['model', 'icons']);
});

test('errors have their classes and name their fields', async () => {
  await assert.rejects(client.chat.completions.create({ ...ASK, top_p: 7 }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === 'top_p');
  await assert.rejects(client.chat.completions.create({ ...ASK, model: 'other' }), OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({ ...ASK, stream: true, n: 0 }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === 'n');
  await assert.rejects(new OpenAI({ baseURL: `${ADDRESS}/v1`, apiKey: 'wrong', maxRetries: 0 }).models.list(),
    OpenAI.AuthenticationError);
});
