// The icon data set: SVG icons of seven open sets, drawn at 64x64 on white, with their names as prompts.
// usage: node scripts/icons.mjs OUT
// Needs npm, which fetches the sets and resvg into OUT/packages. Writes OUT/pictures.safetensors ("pictures", u8
// [count, 64, 64, 3]), OUT/index.jsonl (a line a picture, in the same order), OUT/words.json and OUT/LICENCES.md, each
// written aside and renamed, the index last. What is there already is kept: a second run does nothing.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { install, isComplete, recipeOf, writeAside, writePictures } from './picture_set.mjs';

const SIDE = 64; // pixels
const MOST_BODY = 120_000; // characters of an icon's drawing; larger ones are slow and few
const HELD_OUT = 20; // one pair of style and name in so many is not trained on
const WORD_COUNT = 3; // a word that occurs less often is no word of the model
const RESVG = '@resvg/resvg-js@2.6.2'; // MPL-2.0
// Drawings on which this resvg ends the process.
const CRASHES = new Set(['noto/package', 'noto/rainbow-flag', 'noto-v1/ambulance', 'noto-v1/bullet-train',
  'noto-v1/cocktail-glass', 'noto-v1/hot-beverage', 'noto-v1/lady-beetle', 'noto-v1/man-lifting-weights',
  'noto-v1/person-lifting-weights']);

// style, package, version. Sets under share-alike licences (openmoji, emojione-v1) are left out.
const SETS = [
  ['noto', 'noto', '1.2.9'],
  ['noto-v1', 'noto-v1', '1.2.5'],
  ['fluent-flat', 'fluent-emoji-flat', '1.2.6'],
  ['fluent', 'fluent-emoji', '1.2.7'],
  ['fxemoji', 'fxemoji', '1.2.2'],
  ['twemoji', 'twemoji', '1.2.5'],
  ['emojione', 'emojione', '1.2.3'],
];
// What fxemoji calls the categories of the other sets.
const CATEGORIES = { People: 'People & Body', Nature: 'Animals & Nature', Places: 'Travel & Places', Other: 'Symbols' };
const OPEN_LICENCES = new Set(['Apache-2.0', 'MIT', 'CC-BY-4.0']);

function readSet(folder, [style, name]) {
  const at = (file) => JSON.parse(readFileSync(join(folder, 'node_modules/@iconify-json', name, file), 'utf8'));
  const set = { style, name, icons: at('icons.json'), info: at('info.json'), categories: new Map() };
  if (!OPEN_LICENCES.has(set.info.license.spdx)) {
    throw new Error(`${name}: expected one of ${[...OPEN_LICENCES].join(', ')}, found ${set.info.license.spdx}`);
  }
  const categories = at('metadata.json').categories ?? {};
  for (const [category, names] of Object.entries(categories)) for (const n of names) set.categories.set(n, category);
  return set;
}

// Fluent's "waving-hand-medium-dark" is a skin tone because "waving-hand" or "waving-hand-default" exists.
function isSkinTone(name, icons) {
  if (name.includes('skin-tone')) return true;
  const base = name.replace(/-(medium-light|medium-dark|medium|light|dark)$/, '');
  return base !== name && (base in icons || base + '-default' in icons);
}

function svgOf(icon, icons) {
  const { left = 0, top = 0, width = icons.width ?? 16, height = icons.height ?? 16 } = icon;
  return `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" ` +
    `viewBox="${left} ${top} ${width} ${height}" width="${SIDE}" height="${SIDE}">${icon.body}</svg>`;
}

function pixelsOf(Resvg, svg) {
  const image = new Resvg(svg, { background: 'white', fitTo: { mode: 'width', value: SIDE },
    font: { loadSystemFonts: false } }).render();
  if (image.width !== SIDE || image.height !== SIDE) throw new Error(`drawn ${image.width}x${image.height}`);
  const rgba = image.pixels;
  const rgb = Buffer.alloc(SIDE * SIDE * 3);
  for (let i = 0; i < SIDE * SIDE; ++i) rgba.copy(rgb, 3 * i, 4 * i, 4 * i + 3);
  return rgb;
}

// Names without hyphens, as fxemoji's "bouquetofflowers", are cut into words of the other sets: as few as possible,
// the longest first. Null if that cannot be done.
function cutWords(text, words) {
  const best = [[]];
  for (let end = 1; end <= text.length; ++end) {
    for (let begin = 0; begin < end; ++begin) {
      if (!best[begin] || !words.has(text.slice(begin, end))) continue;
      const cut = [...best[begin], text.slice(begin, end)];
      if (!best[end] || cut.length < best[end].length) best[end] = cut;
    }
  }
  return best[text.length] ?? null;
}

function listPictures(sets) {
  const noto = sets[0].categories;
  const hyphenated = new Map();
  for (const set of sets) {
    for (const name of Object.keys(set.icons.icons)) {
      for (const word of name.split('-')) hyphenated.set(word, (hyphenated.get(word) ?? 0) + 1);
    }
  }
  const known = new Set([...hyphenated].filter(([word, count]) => count >= WORD_COUNT && word.length > 1).map(([w]) => w));
  const pictures = [];
  for (const set of sets) {
    for (const [id, icon] of Object.entries(set.icons.icons)) {
      if (icon.hidden || icon.body.length > MOST_BODY || isSkinTone(id, set.icons.icons)) continue;
      if (CRASHES.has(`${set.name}/${id}`)) continue;
      const plain = id.replace(/-default$/, '');
      let words = plain.split('-');
      if (words.length === 1 && !known.has(plain)) words = cutWords(plain, known) ?? words;
      const name = words.join('-');
      const own = set.categories.get(id) ?? 'Other';
      const category = noto.get(name) ?? CATEGORIES[own] ?? own;
      pictures.push({ set, id, icon, name, words, category });
    }
  }
  return pictures;
}

function heldOut(style, name) {
  return createHash('sha256').update(`${style} ${name}`).digest().readUInt32BE(0) % HELD_OUT === 0;
}

function licences(sets, counts) {
  const rows = sets.map((s) => `| ${s.style} | ${s.info.name}, ${s.info.author.name}, ${s.info.author.url} | ` +
    `${s.info.license.spdx}, ${s.info.license.url} | ${counts.get(s.style)} |`);
  return ['# Licences of the icons', '', '| style | set, author | licence | pictures |', '|---|---|---|---|', ...rows, '',
    'Drawn at 64x64 pixels on white; nothing else was changed.', ''].join('\n');
}

function main(out) {
  if (!out) {
    console.error('usage: node scripts/icons.mjs OUT');
    process.exit(2);
  }
  const recipe = recipeOf(import.meta.url);
  if (isComplete(out, recipe)) {
    console.error(`icons: ${out} is complete`);
    return;
  }
  const packages = resolve(out, 'packages');
  install(packages, [RESVG, ...SETS.map(([, name, version]) => `@iconify-json/${name}@${version}`)]);
  const { Resvg } = createRequire(join(packages, 'package.json'))('@resvg/resvg-js');
  const sets = SETS.map((set) => readSet(packages, set));
  const pictures = [], counts = new Map(), wordCounts = new Map();
  let left = 0;
  for (const { set, id, icon, name, words, category } of listPictures(sets)) {
    let pixels;
    try {
      pixels = pixelsOf(Resvg, svgOf(icon, set.icons));
    } catch (problem) {
      ++left;
      console.error(`icons: ${set.name} ${id} is left out: ${problem.message}`);
      continue;
    }
    const split = heldOut(set.style, name) ? 'held-out' : 'train';
    pictures.push({ style: set.style, name, words, category, split, pixels });
    counts.set(set.style, (counts.get(set.style) ?? 0) + 1);
    if (split === 'train') for (const word of words) wordCounts.set(word, (wordCounts.get(word) ?? 0) + 1);
  }
  const words = [...wordCounts].filter(([, count]) => count >= WORD_COUNT).map(([word]) => word).sort();
  writeAside(join(out, 'LICENCES.md'), licences(sets, counts));
  writePictures(out, { recipe, side: SIDE, styles: sets.map((s) => s.style), words, pictures });
  const held = pictures.filter((one) => one.split === 'held-out').length;
  console.error(`icons: ${pictures.length} pictures, ${held} held out, ${words.length} words, ${left} left out`);
}

main(process.argv[2]);
