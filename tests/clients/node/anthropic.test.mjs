// Anthropic's client: messages, streams, tools, schemas, counts, errors.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { ADDRESS, CITIES, KEY, MESSAGES, PARAMETERS } from './ask.mjs';

const client = new Anthropic({ baseURL: ADDRESS, apiKey: KEY, maxRetries: 0 });
const ASK = { model: 'model', messages: MESSAGES, max_tokens: 8, temperature: 0 };
const TOOL = { name: 'weather', description: 'Tells the weather.', input_schema: PARAMETERS };
const CALL = { ...ASK, max_tokens: 64, tools: [TOOL], tool_choice: { type: 'any', disable_parallel_tool_use: true } };

test('a stream joins to the whole', async () => {
  const whole = await client.messages.create(ASK);
  assert.equal(whole.stop_reason, 'max_tokens');
  const stream = client.messages.stream(ASK);
  let text = '';
  stream.on('text', (delta) => (text += delta));
  const final = await stream.finalMessage();
  assert.equal(text, whole.content[0].text);
  assert.deepEqual(final.content, whole.content);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
});

test('tools', async () => {
  const answer = await client.messages.create(CALL);
  assert.equal(answer.stop_reason, 'tool_use');
  const [use] = answer.content;
  assert.ok(CITIES.includes(use.input.city));
  assert.deepEqual((await client.messages.stream(CALL).finalMessage()).content[0].input, use.input);
  const result = { type: 'tool_result', tool_use_id: use.id, content: 'warm' };
  const turns = [...MESSAGES, { role: 'assistant', content: answer.content }, { role: 'user', content: [result] }];
  const said = await client.messages.create({ ...ASK, messages: turns, tools: [TOOL], tool_choice: { type: 'none' } });
  assert.equal(said.content[0].type, 'text');
});

test('schemas', async () => {
  const format = { type: 'json_schema', schema: PARAMETERS };
  const answer = await client.messages.create({ ...ASK, max_tokens: 64, output_config: { format } });
  assert.ok(CITIES.includes(JSON.parse(answer.content[0].text).city));
});

test('stop texts are named', async () => {
  const whole = (await client.messages.create(ASK)).content[0].text;
  const stop = whole.trim().split(/\s+/)[2];
  const answer = await client.messages.create({ ...ASK, stop_sequences: [stop] });
  assert.deepEqual([answer.stop_reason, answer.stop_sequence], ['stop_sequence', stop]);
  assert.ok(whole.startsWith(answer.content[0].text));
});

test('tokens are counted', async () => {
  const { input_tokens } = await client.messages.countTokens({ model: 'model', messages: MESSAGES });
  const { usage } = await client.messages.create(ASK);
  assert.equal(usage.input_tokens + usage.cache_read_input_tokens, input_tokens);
});

test('errors have their classes', async () => {
  await assert.rejects(client.messages.create({ ...ASK, top_p: 7 }), Anthropic.BadRequestError);
  await assert.rejects(client.messages.create({ ...ASK, model: 'other' }), Anthropic.NotFoundError);
  await assert.rejects(new Anthropic({ baseURL: ADDRESS, apiKey: 'wrong', maxRetries: 0 }).messages.create(ASK),
    Anthropic.AuthenticationError);
});
