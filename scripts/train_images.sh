#!/usr/bin/env bash
# Makes the icon data set, trains a tokenizer, makes codes, trains an image model, the network whose features compare
# pictures, and a head that drafts for the model, one after the other, at idle priority. Every stage goes on where it was
# stopped and one that is finished says so: run it again at any time.
# usage: scripts/train_images.sh FOLDER [talon]      THREADS=2
set -euo pipefail

folder=${1:?usage: scripts/train_images.sh FOLDER [talon]}
talon=$(realpath "${2:-build/talon}")
scripts=$(realpath "$(dirname "$0")")
mkdir -p "$folder"
cd "$folder"
exec 9> train.lock
flock -n 9 || { echo "train_images: $folder is trained already by another process" >&2; exit 1; }

say() { echo "$(date '+%F %T') $*"; }
stage() {
  say "begins: $*"
  chrt --idle 0 "$talon" train "$@" --threads "${THREADS:-2}"
  say "finished: $1 $2"
}

node "$scripts/icons.mjs" icons
python3 "$scripts/icon_prompts.py" icons
stage image tokenizer --data icons -o tokenizer --epochs 20 --batch 16 --rate 1e-3 --log-every 100 --checkpoint-every 200 \
  --evaluate-every 1000
stage image codes --data icons --tokenizer tokenizer -o codes --views 10
stage image model --data icons --codes codes -o model --epochs 14 --batch 32 --rate 1.5e-3 --hidden 256 --layers 8 --dropout 0.1 \
  --log-every 50 --checkpoint-every 100 --evaluate-every 500
stage image features --data icons -o features --epochs 30 --batch 32 --log-every 100 --checkpoint-every 200 --evaluate-every 1000
stage data -m model/model --prompts icons/prompts.jsonl --guidance 2 --features q8 --tokens 1000000 -o drawn
stage head --kind eagle -m model/model --data drawn -o head --epochs 4 --steps 4 --rate 1e-3 --loss-tokens 1024 \
  --draft-vocab 0 --questions icons/held_out.jsonl --guidance 2 --evaluate-every 500
say "all stages are finished"
