#!/usr/bin/env bash
# Makes the icon data set, trains a tokenizer, makes codes, trains an image model and the network whose features compare
# pictures, one after the other, at idle priority. Every stage goes on where it was stopped and one that is finished says so:
# run it again at any time.
# usage: scripts/train_images.sh FOLDER [talon]      THREADS=2
set -euo pipefail

folder=${1:?usage: scripts/train_images.sh FOLDER [talon]}
talon=$(realpath "${2:-build/talon}")
icons=$(realpath "$(dirname "$0")/icons.mjs")
mkdir -p "$folder"
cd "$folder"
exec 9> train.lock
flock -n 9 || { echo "train_images: $folder is trained already by another process" >&2; exit 1; }

say() { echo "$(date '+%F %T') $*"; }
stage() {
  say "begins: $*"
  chrt --idle 0 "$talon" train image "$@" --threads "${THREADS:-2}"
  say "finished: $1"
}

node "$icons" icons
stage tokenizer --data icons -o tokenizer --epochs 20 --batch 16 --rate 1e-3 --log-every 100 --checkpoint-every 200 \
  --evaluate-every 1000
stage codes --data icons --tokenizer tokenizer -o codes --views 10
stage model --data icons --codes codes -o model --epochs 14 --batch 32 --rate 1.5e-3 --hidden 256 --layers 8 --dropout 0.1 \
  --log-every 50 --checkpoint-every 100 --evaluate-every 500
stage features --data icons -o features --epochs 30 --batch 32 --log-every 100 --checkpoint-every 200 --evaluate-every 1000
say "all stages are finished"
