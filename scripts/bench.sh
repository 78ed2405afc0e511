#!/usr/bin/env bash
# Reproduces the tables of the README and of docs/results.md on the development questions of Spec-Bench, each in one interleaved run:
# plain decoding beside what drafts for the model by itself and its parts, at several temperatures; greedily, every drafter that has what it
# needs, and llama.cpp; then plain decoding, prefill and checks of many rows beside llama.cpp's own benchmark programs. Where
# `scripts/llama_cpp.sh source` has built a second llama.cpp, it is measured, too (llama.cpp@source).
# A run that was cut short goes on where it stopped. usage: scripts/bench.sh TALON, with in the environment
#   BENCH_MODEL=M       of the catalogue (default smollm2)
#   BENCH_QUESTIONS=N   first questions of each category only; 2 take about three minutes (default: all, an hour and more)
#   BENCH_CATEGORY=C    of this category only
#   BENCH_TEMPERATURES=T,U  of the first part (default 0,0.3,0.7,1; none: without it)
#   BENCH_METHODS=M,N   instead of the methods of the second part (none: without it)
#   BENCH_REPEATS=N     answers of each, medians count (default 1)
#   BENCH_ROUNDS=N      rounds of the third part (default 5; 0: none, which is the default for some of the questions or another model)
#   BENCH_RESULTS=DIR   where the results go (default bench/results; build/bench/results for some of the questions, other temperatures or
#                       other methods). Tables are made of bench/results alone
set -euo pipefail
cd "$(dirname "$0")/.."
talon=$1
model=${BENCH_MODEL:-smollm2}
category=${BENCH_CATEGORY:-}
temperatures=${BENCH_TEMPERATURES:-0,0.3,0.7,1}
limit=${BENCH_QUESTIONS:-0}
results=bench/results
if [ "$limit$category" != 0 ] || [[ ${BENCH_TEMPERATURES:-none}${BENCH_METHODS:-none} != nonenone ]]; then results=build/bench/results; fi
results=${BENCH_RESULTS:-$results}
rounds=${BENCH_ROUNDS:-$([ "$limit$category$model" = 0smollm2 ] && echo 5 || echo 0)}
peer=$(scripts/llama_cpp.sh)
llamas=("llama.cpp=$peer") also=()
if source=$(scripts/llama_cpp.sh source --built); then
  llamas+=("llama.cpp@source=$source") also=(--also "source=$source")
fi

"$talon" pull "$model" --models downloads > /dev/null
# Results bear the name of the kernels, so that those of machines with other instructions stand beside them.
kernels=$("$talon" inspect --machine --json | sed -n 's/.*"backend":"\([a-z0-9_]*\) kernels.*/\1/p')

methods=none,ngram,suffix
for drafter in eagle eagle2 eagle3 medusa; do
  head=models/$model-$drafter
  if [ -e "$head" ]; then methods+=,$drafter:head=$head; fi
done
automatic=none,suffix
if [ -e "models/$model-eagle3" ]; then
  methods+=,eagle3:head=models/$model-eagle3+suffix
  automatic+=,eagle3:head=models/$model-eagle3,eagle3:head=models/$model-eagle3+suffix
fi
for llama in "${llamas[@]}"; do methods+=,peer:$llama,peer:${llama%%=*}:ngram-simple=${llama#*=}; done
if [ -e "models/$model-eagle3" ]; then
  head=build/bench/$model-eagle3.gguf # llama.cpp wants the output rows, which the head leaves to the model
  mkdir -p build/bench
  "$talon" convert "models/$model-eagle3" -m "$model" --models downloads -o "$head" > /dev/null
  for llama in "${llamas[@]}"; do methods+=,peer:${llama%%=*}:draft-eagle3=${llama#*=}#$head; done
fi
methods=${BENCH_METHODS:-$methods}

work=build/bench
mkdir -p $work "$results"
build=$(sha256sum < "$talon" | cut -c -8)
status=0
spec() { # NAME option...: one run, whose lines and tables go to the results
  local name=$1 failed=0
  rm -f "$work/$name/spec.jsonl"
  "$talon" bench spec -m "$model" --models downloads --questions tests/data/spec_bench_dev.jsonl --category "$category" --per-category "$limit" \
    --repeats "${BENCH_REPEATS:-1}" -n 128 --output "$work/$name-$build.jsonl" --report "$work/$name" "${@:2}" > /dev/null || failed=$?
  if [ $failed -gt 1 ] || [ ! -e "$work/$name/spec.jsonl" ]; then exit $failed; fi
  status=$((status | failed))
  for kind in jsonl md; do cp "$work/$name/spec.$kind" "$results/${name}_$kernels.$kind"; done
}

name=spec_$model${category:+_$category}
if [ "$temperatures" != none ]; then spec "${name}_temperatures" --methods "$automatic" --temperature "$temperatures"; fi
if [ "$methods" != none ]; then spec "$name" --methods "$methods"; fi

if [ "$rounds" != 0 ]; then
  for peer_model in smollm2 tinyllama; do "$talon" pull $peer_model --models downloads > /dev/null; done
  python3 bench/converted.py "$talon" "$peer" > "$work/converted.jsonl" || status=1
  python3 bench/peer.py "$talon" "$peer" downloads/smollm2/*.gguf downloads/tinyllama/*.gguf --rounds "$rounds" \
    "${also[@]}" --out "$results/peer_$kernels.jsonl" || status=1
fi
if [ "$results" = bench/results ]; then python3 bench/table.py bench/results; fi
exit $status
