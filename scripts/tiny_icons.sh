#!/usr/bin/env bash
# Makes FOLDER, a tiny image model (that of tests/data/golden/images, with 32 by 32 cells and its tokenizer) for tests that
# need a server which draws. It draws noise. usage: scripts/tiny_icons.sh FOLDER
set -euo pipefail
folder=$1
golden=$(dirname "$0")/../tests/data/golden/images
mkdir -p "$folder"
tr -d '\n' < "$golden/words/config.json" | sed -E 's/"grid": \[[^]]*\]/"grid": [32, 32]/' > "$folder/config.json"
cp "$golden/words/words.json" "$folder"
zstd -q -f -d "$golden/words/model.safetensors.zst" -o "$folder/model.safetensors"
zstd -q -f -d "$golden/words/vq.safetensors.zst" -o "$folder/vq.safetensors"
