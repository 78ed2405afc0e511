#!/usr/bin/env bash
# Prefill of each turn of one conversation, with what earlier turns left in the cache and without it, in turns.
# usage: bench/chat_reuse.sh [ROUNDS=2] [MODEL=smollm2] [DRAFTER=eagle3] [TOKENS of an answer=192]; TALON_BUILD=build
set -euo pipefail
rounds=${1:-2} model=${2:-smollm2} drafter=${3:-eagle3} tokens=${4:-192} talon=${TALON_BUILD:-build}/talon
conversation() {
  printf '%s\n/stats\n' "Write a short story about a lighthouse keeper and a storm." "Tell it again from the view of the sea." \
    "Summarise both stories in four sentences." "Which of the two is better, and why?" |
    "$talon" chat -m "$model" -d "$drafter" -n "$tokens" "$1" 2>&1 > /dev/null |
    sed -n "s/.*prompt \([0-9]*\) tokens (\([0-9]*\) found in the cache) in \([0-9.]*\) ms.*/$1 \1 \2 \3/p" | awk '{ print NR, $0 }'
}
for ((round = 0; round < rounds; round++)); do
  for kind in --reuse --no-reuse; do conversation $kind; done
done | sort -k1,1n -k2,2r -k5,5n | awk '
  { key = $1 " " $2; if (!(key in count)) order[++keys] = key; ms[key, ++count[key]] = $5; prompt[key] = $3; found[key] = $4 }
  END {
    print "turn, cache, prompt tokens, found, ms (median, least, most)"
    for (k = 1; k <= keys; k++) {
      key = order[k]; n = count[key]
      print key, prompt[key], found[key], ms[key, int((n + 1) / 2)], ms[key, 1], ms[key, n]
    }
  }'
