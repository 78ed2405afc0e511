#!/usr/bin/env bash
# Compares kinds of draft heads that learned alike (docs/training.md): each learns from nothing on the same answers of MODEL, as often,
# with one thread, then all draft the same questions in one interleaved run, alone and with `suffix`, beside the head that ships.
# A run that was stopped goes on where it was. Writes FOLDER/heads.jsonl and a page beside it.
# usage: PROMPTS=FILE scripts/compare_heads.sh FOLDER [talon]    PROMPTS: as of talon train data. Further settings, with their defaults:
#        RESPONSES=FILE (ready answers, which are learned from, too)  MODEL=smollm2  TOKENS=500000 (of answers)  EPOCHS=2
#        KINDS="eagle3 dflash peagle draft eagle medusa"  QUESTIONS=4 (first ones of each category)  TEMPERATURES=0,1  JOBS=<processors>
set -euo pipefail

folder=$(realpath -m "${1:?usage: scripts/compare_heads.sh FOLDER [talon]}")
talon=$(realpath "${2:-build/talon}")
prompts=$(realpath "${PROMPTS:?compare_heads: PROMPTS: expected a file of prompts}")
responses=${RESPONSES:+$(realpath "$RESPONSES")}
cd "$(dirname "$0")/.."
model=${MODEL:-smollm2} jobs=${JOBS:-$(nproc)}
questions=tests/data/spec_bench_dev.jsonl
read -ra kinds <<< "${KINDS:-eagle3 dflash peagle draft eagle medusa}"
mkdir -p "$folder/data"

# Runs the command lines on standard input, as many at once as there are jobs; fails if one fails.
at_once() { xargs -r -d '\n' -P "$jobs" -I '{}' bash -euo pipefail -c '{}'; }

if [ -n "$responses" ]; then
  "$talon" train data -m "$model" --responses "$responses" --features q8 --threads "$jobs" -o "$folder/data/ready"
fi
for ((share = 0; share < 8; share++)); do
  printf '%q ' "$talon" train data -m "$model" --prompts "$prompts" --held-out "$questions" -o "$folder/data/$model" \
    --temperature-mix 0:0.45,0.3:0.1,0.6-0.8:0.2,0.9-1:0.25 -n 192 --max-prompt 400 --samples 4 --features q8 --seed 7 \
    --tokens "${TOKENS:-500000}" --shard $share/8 --threads 1 --batch 64
  echo
done | at_once

for kind in "${kinds[@]}"; do
  sizes=()
  case $kind in
    eagle3 | medusa) sizes=(--steps 4) ;;
    eagle) sizes=(--steps 3) ;;
    dflash) sizes=(--steps 6) ;;
    peagle) sizes=(--steps 5) ;;
    draft) sizes=(--layers 3) ;;
    *) echo "KINDS: expected eagle3, dflash, peagle, draft, eagle or medusa, got $kind" >&2; exit 2 ;;
  esac
  printf '%q ' "$talon" train head -m "$model" --kind "$kind" --data "$folder"/data/* -o "$folder/$kind" \
    --epochs "${EPOCHS:-2}" --batch 1024 --threads 1 "${sizes[@]}"
  echo
done | at_once

methods=none,suffix
[ ! -e "models/$model-eagle3" ] || methods+=,eagle3:head=models/$model-eagle3+suffix
for kind in "${kinds[@]}"; do
  method=$kind:head=$folder/$kind/head
  case $kind in
    eagle) method=eagle2:head=$folder/eagle/head ;;
    draft) method=draft:model=$folder/draft/head,weights=int8 ;;
    dflash | peagle) methods+=,$kind:topk=1,head=$folder/$kind/head ;; # a chain
  esac
  methods+=,$method,$method+suffix
done
"$talon" bench spec -m "$model" --questions "$questions" --per-category "${QUESTIONS:-4}" -n 128 --temperature "${TEMPERATURES:-0,1}" \
  --methods "$methods" --threads "$jobs" --output "$folder/heads.jsonl" --report "$folder/heads"
