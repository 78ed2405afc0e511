#!/usr/bin/env bash
# Mixtures of experts (scripts/mixtures.py): plain decoding and checks of eight rows beside llama.cpp in one interleaved run, then
# drafting on one whose texts are SmolLM2's. Wants a quiet machine and 7 GB of disk. usage: scripts/mixtures.sh BUILD [ROUNDS], with
# in the environment MIXTURES_SOURCE=1 to build a second, newer llama.cpp and measure it, too, or 0 not to (default: where it is built)
set -euo pipefail
cd "$(dirname "$0")/.."
talon=$1/talon rounds=${2:-5} folder=downloads/mixtures out=bench/results
peer=$(scripts/llama_cpp.sh)
also=()
case ${MIXTURES_SOURCE:-} in
  0) ;;
  1) source=$(scripts/llama_cpp.sh source) also=(--also "source=$source") ;;
  *) if source=$(scripts/llama_cpp.sh source --built); then also=(--also "source=$source"); fi ;;
esac
mkdir -p "$folder" "$out"
"$talon" pull smollm2 --models downloads > /dev/null
upcycled=$folder/smollm2-8x2.gguf
[ -f "$upcycled" ] || python3 scripts/mixtures.py upcycle downloads/smollm2/*.gguf "$upcycled"
for model in qwen3-30b-a3b gpt-oss-20b gemma-4-26b-a4b; do
  [ -f "$folder/$model.gguf" ] || python3 scripts/mixtures.py random "$model" "$folder/$model.gguf"
done
python3 bench/peer.py "$talon" "$peer" "$folder/qwen3-30b-a3b.gguf" "$folder/gpt-oss-20b.gguf" \
  "$folder/gemma-4-26b-a4b.gguf" "$upcycled" --no-text "${also[@]}" \
  --rounds "$rounds" --out "$out/mixtures.jsonl"
head=head=models/smollm2-eagle3
"$talon" bench spec -m "$upcycled" --questions tests/data/spec_bench_dev.jsonl --per-category 1 -n 80 --methods \
  "eagle3:$head@policy=throughput,eagle3:$head+suffix@policy=throughput,eagle3:topk=2,levels=2,nodes=3,$head@policy=fixed"
