#!/usr/bin/env bash
# Draws the pictures of the documents with the model of icons that ships: docs/emoji.png, 64 held-out prompts, evenly of all of
# them as they come, and docs/drawing.png, an animation of one picture as it is drawn plainly and with all drafts that its head and
# jacobi have.
# usage: scripts/emoji_pictures.sh TALON
set -euo pipefail
talon=$(realpath "$1")
cd "$(dirname "$0")/.."
model=models/emoji
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
command -v montage > /dev/null || scripts/setup.sh build montage

awk 'NR == FNR { count = NR; next } int(FNR * 64 / count) > int((FNR - 1) * 64 / count)' \
  "$model/held_out.jsonl" "$model/held_out.jsonl" > "$folder/prompts.jsonl"
"$talon" image -m "$model" --batch "$folder/prompts.jsonl" -o "$folder/pictures"
montage "$folder"/pictures/*.png -tile 8x8 -geometry +4+4 -background white -strip "$folder/sheet.png"
"$talon" image -m "$model" -p "${FILM:-red heart twemoji}" --seed "${SEED:-1}" --policy fixed --show never -o "$folder/one.png" \
  --watch "$folder/film.png"
mv "$folder/sheet.png" docs/emoji.png
mv "$folder/film.png" docs/drawing.png
