#!/usr/bin/env bash
# Reproduces the README's tables: plain decoding, every drafter that has what it needs, and llama.cpp, in one interleaved run over the
# development questions of Spec-Bench; then plain decoding, prefill and checks of many rows beside llama.cpp's own benchmark programs.
# A run that was cut short goes on where it stopped. usage: scripts/bench.sh TALON, with in the environment
#   BENCH_MODEL=M       of the catalogue (default smollm2)
#   BENCH_QUESTIONS=N   first questions of each category only; 2 take about three minutes (default: all, an hour and more)
#   BENCH_CATEGORY=C    of this category only: results of their own
#   BENCH_METHODS=M,N   instead of the methods below
#   BENCH_REPEATS=N     answers of each, medians count (default 1)
#   BENCH_ROUNDS=N      rounds of the second part (default 5; 0: none, which is the default for some of the questions or another model)
set -euo pipefail
cd "$(dirname "$0")/.."
talon=$1
model=${BENCH_MODEL:-smollm2}
category=${BENCH_CATEGORY:-}
limit=${BENCH_QUESTIONS:-0}
rounds=${BENCH_ROUNDS:-$([ "$limit$category$model" = 0smollm2 ] && echo 5 || echo 0)}
peer=$(scripts/llama_cpp.sh)

"$talon" pull "$model" --models downloads > /dev/null

methods=none,ngram,suffix
for drafter in eagle eagle2 eagle3 medusa; do
  head=models/$model-$drafter
  if [ -e "$head" ]; then methods+=,$drafter:head=$head; fi
done
if [ -e "models/$model-eagle3" ]; then methods+=,eagle3:head=models/$model-eagle3+suffix; fi
methods+=,peer:llama.cpp=$peer,peer:llama.cpp:ngram-simple=$peer
methods=${BENCH_METHODS:-$methods}

name=spec_$model${category:+_$category}
work=build/bench
mkdir -p $work bench/results
status=0
"$talon" bench spec -m "$model" --models downloads --methods "$methods" --questions tests/data/spec_bench_dev.jsonl \
  --category "$category" --per-category "$limit" --repeats "${BENCH_REPEATS:-1}" -n 128 \
  --output "$work/$name-$(git describe --always).jsonl" --report "$work/$name" > /dev/null || status=$?
if [ $status -gt 1 ]; then exit $status; fi
for kind in jsonl md; do cp "$work/$name/spec.$kind" "bench/results/$name.$kind"; done

if [ "$rounds" != 0 ]; then
  for peer_model in smollm2 tinyllama; do "$talon" pull $peer_model --models downloads > /dev/null; done
  python3 bench/peer.py "$talon" "$peer" downloads/smollm2/*.gguf downloads/tinyllama/*.gguf --rounds "$rounds" --out bench/results/peer.jsonl
fi
python3 bench/table.py bench/results
exit $status
