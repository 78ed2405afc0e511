#!/usr/bin/env bash
# Makes the heads in models/ from the prompts file, or goes on with them: data, training, export. Stop it at any moment and start it again.
# usage: scripts/train_heads.sh PROMPTS RESPONSES QUESTIONS [HEAD...]
# PROMPTS: train_prompts.jsonl.zst, RESPONSES: smollm2_responses.jsonl.zst or "" for none, QUESTIONS: held-out questions (Spec-Bench lines),
# on which heads are measured. HEAD: of smollm2-eagle3, smollm2-eagle2, smollm2-medusa, stories15m-eagle2 (default: these) and
# tinyllama-eagle3. Settings, as environment variables, with their defaults:
#   MINUTES=600, STORY_MINUTES=10     of training of a head
#   TOKENS=10000000, STORY_TOKENS=1000000, TINYLLAMA_TOKENS=1000000   response tokens to have (2.4, 2.3 and 16.4 kB each on disk)
#   JOBS=<processors>                 processes at once, of one thread each; of more when there are fewer heads than that
#   LIMIT=24, EVERY=2000              questions that a head is measured on, after so many iterations each
#   DATA=downloads/train, HEADS=models, TALON_BUILD=build    folders
set -euo pipefail
[ $# -ge 3 ] || { sed -n 3,11p "$0" >&2; exit 2; }
prompts=$1 responses=$2 questions=$3
shift 3
[ $# -gt 0 ] || set -- smollm2-eagle3 smollm2-eagle2 smollm2-medusa stories15m-eagle2
root=$(cd "$(dirname "$0")/.." && pwd)
export talon=${TALON_BUILD:-build}/talon data=${DATA:-downloads/train} heads=${HEADS:-models}
jobs=${JOBS:-$(nproc)}
export threads=$((jobs > $# ? jobs / $# : 1))

# Runs the functions named on standard input, with their arguments, a line each, as many at once as there are jobs; fails if one fails.
at_once() { xargs -r -d '\n' -P "$jobs" -I '{}' bash -euo pipefail -c '{}'; }

# answers MODEL FOLDER TOKENS options...: shares of the answers, several a process, so that none waits long for the slowest.
answers() {
  local shares=$((jobs * 8)) share
  for ((share = 0; share < shares; share++)); do
    printf '%q ' "$talon" train data -m "$1" -o "$data/$2" --tokens "$3" --shard $share/$shares --threads 1 --batch 64 "${@:4}"
    echo
  done | at_once
}

# head NAME MODEL KIND options...: trains, or goes on, and copies the best head so far.
head() {
  "$talon" train head -m "$2" --kind "$3" -o "$data/runs/$1" --epochs 1000 --batch 1024 --threads "$threads" "${@:4}"
  mkdir -p "$heads/$1"
  if [[ $3 == eagle* ]]; then
    "$talon" convert "$data/runs/$1/head" -m "$2" --shared-output -o "$heads/$1/head.gguf"
    cp "$data/runs/$1/head/README.md" "$heads/$1/"
    rm -f "$heads/$1/config.json" "$heads/$1/model.safetensors"
  else
    cp -r "$data/runs/$1/head/." "$heads/$1/"
  fi
}
export -f head

wanted() { # HEAD-PREFIX
  local name
  for name in "${all[@]}"; do [[ $name == "$1"* ]] && return; done
  return 1
}
all=("$@")
for name in "${all[@]}"; do
  case $name in
    smollm2-eagle3 | smollm2-eagle2 | smollm2-medusa | stories15m-eagle2 | tinyllama-eagle3) ;;
    *) echo "train_heads: expected a head of the list above, found $name" >&2; exit 2 ;;
  esac
done

mkdir -p "$data/runs"
mix=0:0.35,0.3:0.1,0.6-0.8:0.2,0.9-1:0.35
if wanted smollm2; then
  folders="$data/smollm2"
  if [ -n "$responses" ]; then
    "$talon" train data -m smollm2 --responses "$responses" -o "$data/smollm2_ready"
    folders="$data/smollm2_ready $folders"
  fi
  answers smollm2 smollm2 "${TOKENS:-10000000}" --prompts "$prompts" --held-out "$questions" --temperature-mix $mix -n 192 --max-prompt 400 \
    --samples 4 --features q8 --seed 7
fi
if wanted stories15m; then
  [ -s "$data/story_prompts.jsonl" ] || python3 "$root/scripts/story_prompts.py" > "$data/story_prompts.jsonl.part"
  [ -s "$data/story_prompts.jsonl" ] || mv "$data/story_prompts.jsonl.part" "$data/story_prompts.jsonl"
  answers stories15m stories15m "${STORY_TOKENS:-1000000}" --prompts "$data/story_prompts.jsonl" --no-chat --samples 4 -n 240 --max-prompt 64 \
    --temperature-mix 0:0.3,1:0.7
fi
if wanted tinyllama; then
  answers tinyllama tinyllama "${TINYLLAMA_TOKENS:-1000000}" --prompts "$prompts" --held-out "$questions" --temperature-mix $mix -n 160 \
    --max-prompt 300 --samples 4 --activations 8 --seed 7
fi

measured="--questions $questions --limit ${LIMIT:-24} -n 64 --temperatures 0,0.7,1 --evaluate-every ${EVERY:-2000}"
for name in "${all[@]}"; do
  case $name in
    smollm2-eagle3) echo "head $name smollm2 eagle3 --data $folders --steps 4 --minutes ${MINUTES:-600} $measured" ;;
    smollm2-eagle2) echo "head $name smollm2 eagle --data $folders --steps 3 --minutes ${MINUTES:-600} $measured" ;;
    smollm2-medusa) echo "head $name smollm2 medusa --data $folders --steps 4 --minutes ${MINUTES:-600} $measured" ;;
    # A head for 2,048 numbers a token is large: fewer neurons and a smaller vocabulary keep its file below 100 MB, and train half as fast again.
    tinyllama-eagle3)
      echo "head $name tinyllama eagle3 --data $data/tinyllama --steps 4 --minutes ${MINUTES:-600} --intermediate 1536 --draft-vocab 6144 --rate 4e-4 $measured"
      ;;
    stories15m-eagle2)
      echo "head $name stories15m eagle --data $data/stories15m --steps 3 --minutes ${STORY_MINUTES:-10} --loss-tokens 2048 --draft-vocab 0" \
        "${measured/"$questions"/"$root/tests/data/story_questions.jsonl"}"
      ;;
  esac
done | at_once
