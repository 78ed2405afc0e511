// What the scripts that make sets of pictures for `talon train image` share.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export function writeAside(path, bytes) {
  writeFileSync(path + '.tmp', bytes);
  renameSync(path + '.tmp', path);
}

/** Fetches packages with npm into `folder`; their scripts are not run. */
export function install(folder, packages) {
  mkdirSync(folder, { recursive: true });
  if (!existsSync(join(folder, 'package.json'))) writeFileSync(join(folder, 'package.json'), '{"private": true}\n');
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--silent', ...packages],
    { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
}

/** A hash of the script at `url`: a set that another one made is made again. */
export const recipeOf = (url) => createHash('sha256').update(readFileSync(new URL(url))).digest('hex');

export function isComplete(out, recipe) {
  const words = join(out, 'words.json');
  return existsSync(join(out, 'index.jsonl')) && existsSync(words) && JSON.parse(readFileSync(words)).recipe === recipe;
}

// A safetensors file of one tensor: eight bytes of length, the header padded with blanks, the bytes.
function safetensors(name, shape, bytes) {
  let header = JSON.stringify({ [name]: { dtype: 'U8', shape, data_offsets: [0, bytes.length] } });
  header = header.padEnd(Math.ceil(header.length / 8) * 8);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, Buffer.from(header), bytes]);
}

/**
 * Writes OUT/pictures.safetensors ("pictures", u8 [count, side, side, 3]), OUT/words.json and OUT/index.jsonl, the index last;
 * that of another set is removed first, so that only what is whole looks complete.
 * pictures: {style, name, words, category, split: "train" or "held-out", pixels: Buffer [side, side, 3]}.
 */
export function writePictures(out, { recipe, side, styles, words, pictures }) {
  rmSync(join(out, 'index.jsonl'), { force: true });
  const bytes = safetensors('pictures', [pictures.length, side, side, 3], Buffer.concat(pictures.map((one) => one.pixels)));
  writeAside(join(out, 'pictures.safetensors'), bytes);
  writeAside(join(out, 'words.json'), JSON.stringify({ recipe, styles, words }, null, 1) + '\n');
  const lines = pictures.map(({ pixels, ...facts }) => JSON.stringify(facts) + '\n');
  writeAside(join(out, 'index.jsonl'), lines.join(''));
}
