#!/usr/bin/env bash
# Compares the losses of draft heads (docs/training.md): the head that ships for MODEL goes on for the same steps on the same answers
# with each of them, then all draft the same questions in one interleaved run at each temperature, beside the head as it ships.
# A run that was stopped goes on where it was. Writes FOLDER/losses/spec.jsonl and a page beside it.
# usage: PROMPTS=FILE scripts/compare_losses.sh FOLDER [talon]    PROMPTS: as of talon train data. Further settings, with their defaults:
#        MODEL=smollm2  TOKENS=150000 (of answers)  EPOCHS=2  RATE=2e-4  QUESTIONS=5 (first ones of each category)
#        LOSSES="soft variation acceptance coupled soft+variation soft+coupled"
set -euo pipefail

folder=$(realpath -m "${1:?usage: scripts/compare_losses.sh FOLDER [talon]}")
talon=$(realpath "${2:-build/talon}")
prompts=$(realpath "${PROMPTS:?compare_losses: PROMPTS: expected a file of prompts}")
cd "$(dirname "$0")/.."
model=${MODEL:-smollm2}
start=models/$model-eagle3
questions=tests/data/spec_bench_dev.jsonl
losses=${LOSSES:-soft variation acceptance coupled soft+variation soft+coupled}
mkdir -p "$folder"

"$talon" train data -m "$model" --prompts "$prompts" --held-out "$questions" --temperature-mix 0:1,0.7:1,1:1 --features q8 \
  --tokens "${TOKENS:-150000}" --threads 2 -o "$folder/data"
heads=("$start")
for loss in $losses; do
  weights=(--loss-soft 0 "--loss-$loss" 1)
  case $loss in
    soft) weights=() ;;  # the default
    soft+*) weights=("--loss-${loss#soft+}" 1) ;;
  esac
  "$talon" train head -m "$model" --kind eagle3 --data "$folder/data" --start "$start" -o "$folder/$loss" \
    --epochs "${EPOCHS:-2}" --rate "${RATE:-2e-4}" --batch 1024 --average 0.99 --threads 2 "${weights[@]}"
  heads+=("$folder/$loss/head")
done

# Greedily drafted trees of one shape for all: what a check accepts then depends on the head alone.
methods=none
for head in "${heads[@]}"; do
  methods+=",eagle3:topk=1,levels=4,nodes=4,head=$head@policy=fixed,eagle3:topk=8,levels=6,nodes=15,head=$head@policy=fixed"
done
"$talon" bench spec -m "$model" --questions "$questions" --per-category "${QUESTIONS:-5}" -n 128 --temperature 0,0.7,1 \
  --methods "$methods" --threads 2 --output "$folder/losses.jsonl" --report "$folder/losses"
