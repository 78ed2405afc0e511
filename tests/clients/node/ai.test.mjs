// The AI SDK over its provider for servers that speak OpenAI's interface.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, Output, generateText, isStepCount, streamText, tool } from 'ai';
import { z } from 'zod';
import { ADDRESS, CITIES, KEY, all } from './ask.mjs';

const provider = createOpenAICompatible(
  { name: 'talon', baseURL: `${ADDRESS}/v1`, apiKey: KEY, includeUsage: true, supportsStructuredOutputs: true });
const ASK = { model: provider('model'), prompt: 'Name three animals.', temperature: 0, maxOutputTokens: 24, maxRetries: 0 };

test('a stream joins to the whole', async () => {
  const whole = await generateText(ASK);
  const stream = streamText(ASK);
  assert.equal((await all(stream.textStream)).join(''), whole.text);
  assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
  assert.equal(await stream.finishReason, whole.finishReason);
});

test('tools are called, in a stream too, and their results go back', async () => {
  const asked = [];
  const weather = tool({
    description: 'Tells the weather.',
    inputSchema: z.object({ city: z.enum(CITIES) }),
    execute: async ({ city }) => { asked.push(city); return 'warm'; },
  });
  const ask = { ...ASK, maxOutputTokens: 64, tools: { weather }, toolChoice: 'required' };
  const answer = await generateText({ ...ask, stopWhen: isStepCount(2) });
  assert.equal(answer.steps.length, 2);
  assert.ok(asked.length >= 1 && asked.every((city) => CITIES.includes(city)));
  const calls = await streamText(ask).toolCalls;
  assert.equal(calls[0].toolName, 'weather');
  assert.deepEqual(calls[0].input, answer.steps[0].toolCalls[0].input);
});

test('schemas, in a stream too', async () => {
  const output = Output.object({ schema: z.object({ kind: z.string().max(20), legs: z.number().int().min(0).max(8) }) });
  const ask = { ...ASK, maxOutputTokens: 100, output };
  const answer = (await generateText(ask)).output;
  assert.equal(typeof answer.kind, 'string');
  const stream = streamText(ask);
  const parts = await all(stream.partialOutputStream);
  assert.deepEqual(parts.at(-1), answer);
});

test('log-probabilities and several choices are asked for by options of the provider', async () => {
  const talon = { logprobs: true, top_logprobs: 2, n: 2, seed: 3 };
  const answer = await generateText({ ...ASK, providerOptions: { talon }, include: { responseBody: true } });
  const { choices } = answer.response.body;
  assert.deepEqual(choices.map((choice) => choice.index), [0, 1]);
  assert.equal(choices[0].message.content, answer.text);
  const tokens = choices[0].logprobs.content;
  assert.ok(tokens.map((token) => token.token).join('').startsWith(answer.text));
  assert.ok(tokens.every((token) => token.logprob <= 0 && token.top_logprobs.length === 2));
});

test('errors are those of the call', async () => {
  await assert.rejects(generateText({ ...ASK, topP: 7 }),
    (error) => APICallError.isInstance(error) && error.statusCode === 400 && /top_p/.test(error.message));
});
