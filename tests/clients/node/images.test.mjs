// OpenAI's client draws pictures: whole ones, streams, errors.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { ADDRESS, KEY, all } from './ask.mjs';

const client = new OpenAI({ baseURL: `${ADDRESS}/v1`, apiKey: KEY, maxRetries: 0 });
const ASK = { model: process.env.IMAGES, prompt: 'red cat flat', seed: 3 };

test('pictures', async () => {
  const answer = await client.images.generate({ ...ASK, n: 2, size: 'auto', output_format: 'png', quality: 'low', moderation: 'low' });
  assert.equal(answer.data.length, 2);
  assert.equal(answer.background, 'opaque');
  assert.equal(Buffer.from(answer.data[0].b64_json, 'base64').toString('latin1', 1, 4), 'PNG');
  const { input_tokens, output_tokens, total_tokens, input_tokens_details } = answer.usage;
  assert.equal(input_tokens + output_tokens, total_tokens);
  assert.equal(input_tokens_details.text_tokens, input_tokens);
});

test('a stream of pictures ends with the whole', async () => {
  const whole = await client.images.generate(ASK);
  const events = await all(await client.images.generate({ ...ASK, stream: true, partial_images: 3 }));
  assert.ok(events.length <= 4);
  events.slice(0, -1).forEach((event, i) => assert.deepEqual([event.type, event.partial_image_index], ['image_generation.partial_image', i]));
  const last = events.at(-1);
  assert.equal(last.type, 'image_generation.completed');
  assert.equal(last.b64_json, whole.data[0].b64_json);
  // How many forwards a picture takes may differ: drafts follow the clock.
  const tokens = ({ forwards, ...usage }) => usage;
  assert.deepEqual(tokens(last.usage), tokens(whole.usage));
});

test('what cannot be drawn is refused by its field', async () => {
  const is = (param) => (error) => error instanceof OpenAI.BadRequestError && error.param === param;
  await assert.rejects(client.images.generate({ ...ASK, size: '1024x1024' }), is('size'));
  await assert.rejects(client.images.generate({ ...ASK, response_format: 'url' }), is('response_format'));
  await assert.rejects(client.images.generate({ ...ASK, background: 'transparent' }), is('background'));
  await assert.rejects(client.images.generate({ ...ASK, prompt: 'red caat flat', stream: true }), is('prompt'));
});
