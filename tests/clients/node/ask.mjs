// What all suites ask for, and of whom: TALON_ADDRESS names a server with the key `key` and a model named `model`.
export const ADDRESS = process.env.TALON_ADDRESS;
export const KEY = 'key';
export const MESSAGES = [{ role: 'user', content: 'Name three animals.' }];
export const CITIES = ['Rome', 'Oslo'];
export const PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string', enum: CITIES } },
  required: ['city'],
  additionalProperties: false,
};

/** All that an asynchronous iterator gives. */
export async function all(items) {
  const list = [];
  for await (const item of items) list.push(item);
  return list;
}
