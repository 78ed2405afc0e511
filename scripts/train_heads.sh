#!/usr/bin/env bash
# Makes the heads in models/ anew, or goes on with them: data, training, export. Stop it at any moment and start it again.
# usage: scripts/train_heads.sh PROMPTS RESPONSES QUESTIONS [MINUTES of training per head, default 600] [TOKENS of answers, default 10000000]
# PROMPTS: train_prompts.jsonl.zst, RESPONSES: smollm2_responses.jsonl.zst, QUESTIONS: held-out questions (Spec-Bench lines), on which heads are measured.
set -euo pipefail
prompts=$1 responses=$2 questions=$3 minutes=${4:-600} tokens=${5:-10000000}
talon=${TALON_BUILD:-build}/talon
data=downloads/train runs=downloads/train/runs

"$talon" train data -m smollm2 --responses "$responses" -o $data/smollm2_ready
for shard in 0 1; do
  "$talon" train data -m smollm2 --prompts "$prompts" --held-out "$questions" -o $data/smollm2 --temperature-mix 0:0.75,0.5-0.9:0.25 \
    -n 192 --max-prompt 400 --samples 4 --activations 8 --threads 1 --batch 64 --tokens "$tokens" --shard $shard/2 --seed 7 &
done
wait
python3 scripts/story_prompts.py > $data/story_prompts.jsonl
"$talon" train data -m stories15m --prompts $data/story_prompts.jsonl --no-chat --samples 4 -n 240 --max-prompt 64 --temperature-mix 0:0.3,1:0.7 --tokens 1000000 -o $data/stories15m

head() { # KIND NAME options...
  "$talon" train head -m smollm2 --kind "$1" --data $data/smollm2_ready $data/smollm2 -o "$runs/$2" --minutes "$minutes" --epochs 1000 \
    --batch 1024 --questions "$questions" --limit 24 -n 64 "${@:3}"
  mkdir -p "models/$2" && cp -r "$runs/$2/head/." "models/$2/"
}
head eagle3 smollm2-eagle3 --steps 4
head eagle smollm2-eagle2 --steps 3
head medusa smollm2-medusa --steps 4
"$talon" train head -m stories15m --kind eagle --data $data/stories15m -o $runs/stories15m-eagle2 --minutes 10 --epochs 1000 --batch 1024 \
  --steps 3 --loss-tokens 2048 --draft-vocab 0
mkdir -p models/stories15m-eagle2 && cp -r $runs/stories15m-eagle2/head/. models/stories15m-eagle2/
