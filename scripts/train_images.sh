#!/usr/bin/env bash
# Makes a set of pictures, trains a tokenizer, makes codes, trains an image model, the network whose features compare pictures, and
# a head that drafts for the model, one after the other, at idle priority. The model of icons learns all of them first and then, in
# two runs, some categories, whose pictures it draws. Every stage goes on where it was stopped and one that is finished says so: run
# it again at any time.
# usage: scripts/train_images.sh FOLDER [talon]      PICTURES=icons (or cifar10)   THREADS=2
set -euo pipefail

folder=${1:?usage: scripts/train_images.sh FOLDER [talon]}
talon=$(realpath "${2:-build/talon}")
scripts=$(realpath "$(dirname "$0")")
pictures=${PICTURES:-icons}
mkdir -p "$folder"
cd "$folder"
exec 9> train.lock
flock -n 9 || { echo "train_images: $folder is trained already by another process" >&2; exit 1; }

categories=
case "$pictures" in
  icons)
    tokenizer_epochs=8 views=10 layers=8 feature_epochs=20 samples=4
    categories="Smileys & Emotion,Animals & Nature,Food & Drink" ;;
  cifar10) tokenizer_epochs=3 views=2 layers=6 feature_epochs=6 samples=1000 ;;  # five times the pictures, ten prompts
  *) echo "train_images: PICTURES: expected icons or cifar10, found $pictures" >&2; exit 2 ;;
esac

say() { echo "$(date '+%F %T') $*"; }
stage() {
  say "begins: $*"
  chrt --idle 0 "$talon" train "$@" --threads "${THREADS:-2}"
  say "finished: $1 $2"
}

node "$scripts/$pictures.mjs" "$pictures"
python3 "$scripts/icon_prompts.py" "$pictures" ${categories:+"$categories"}
stage image tokenizer --data "$pictures" -o tokenizer --epochs $tokenizer_epochs --batch 16 --rate 1e-3 --log-every 50 \
  --checkpoint-every 100 --evaluate-every 1000
stage image codes --data "$pictures" --tokenizer tokenizer -o codes --views $views
model=(image model --data "$pictures" --codes codes --batch 32 --hidden 256 --layers $layers --dropout 0.1 --log-every 50
  --checkpoint-every 100 --evaluate-every 500)
if [ -n "$categories" ]; then
  stage "${model[@]}" -o all --epochs 5 --rate 1.5e-3
  model+=(--categories "$categories")
  stage "${model[@]}" -o some --epochs 15 --rate 1.5e-3 --start all/checkpoint.safetensors
  stage "${model[@]}" -o model --epochs 15 --rate 1e-3 --start some/checkpoint.safetensors
else
  stage "${model[@]}" -o model --epochs 4 --rate 1.5e-3
fi
stage image features --data "$pictures" -o features --epochs $feature_epochs --batch 32 --log-every 100 --checkpoint-every 200 \
  --evaluate-every 1000
stage data -m model/model --prompts "$pictures/prompts.jsonl" --samples $samples --guidance 2 --features q8 --tokens 1000000 -o drawn
stage head --kind eagle -m model/model --data drawn -o head --epochs 4 --steps 4 --rate 1e-3 --loss-tokens 1024 \
  --draft-vocab 0 --questions "$pictures/held_out.jsonl" --guidance 2 --evaluate-every 500
say "all stages are finished"
