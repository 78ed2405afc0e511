#!/usr/bin/env bash
# The methods of the field on the same models and questions, at temperatures 0 and 1: one interleaved `talon bench spec` a model, then all
# of them as one page (build/field/page/field.html) and, where all questions were asked, as lines that others can cite (bench/results).
# Methods that need a head run where models/MODEL-METHOD is. Stop it at any moment: the same command goes on.
# usage: scripts/field.sh TALON, with in the environment
#   FIELD_MODELS="M N"      of the catalogue (default: smollm2 tinyllama)
#   FIELD_QUESTIONS=N       first questions of each subtask only (default: all, many hours)
#   FIELD_TEMPERATURES=T,U  default 0,1
#   FIELD_METHODS=M,N       instead of the methods below
#   FIELD_TOKENS=N          most of an answer (default 128)
#   FIELD_REPEATS=N         answers of each, medians count (default 1)
#   FIELD_PEERS="P Q"       other engines (default: llama.cpp openvino; transformers, openvino-eagle3: 6 GB), 0: none. What cannot be had
#                           is left out, and said. Of models whose EAGLE-3 head is a GGUF file, the latter drafts with the same head
set -euo pipefail
cd "$(dirname "$0")/.."
talon=$1
work=build/field
build=$(sha256sum < "$talon" | cut -c -8)
mkdir -p $work bench/results
peers= eagle3=
for peer in ${FIELD_PEERS:-llama.cpp openvino}; do
  case $peer in
    0) ;;
    llama.cpp) if place=$(scripts/llama_cpp.sh); then
        peers+=,peer:llama.cpp=$place,peer:llama.cpp:ngram-simple=$place; continue; fi ;;
    openvino | transformers) if place=$(scripts/python_peer.sh $peer); then
        peers+=,peer:$peer=$place,peer:$peer:prompt-lookup=$place; continue; fi ;;
    openvino-eagle3) eagle3=1; continue ;;
    *) echo "FIELD_PEERS: expected llama.cpp, openvino, openvino-eagle3, transformers or 0, got $peer" >&2; exit 2 ;;
  esac
  [ $peer = 0 ] || echo "without $peer" >&2
done

methods_of() { # MODEL
  local list=none,ngram,suffix,jacobi,lookahead drafter head place
  for drafter in medusa eagle eagle2 eagle3 dflash dspark peagle; do
    head=models/$1-$drafter
    if [ -e "$head" ]; then list+=,$drafter:head=$head; fi
  done
  if [ -e "models/$1-draft" ]; then list+=,draft:model=models/$1-draft; fi
  case $1 in
    smollm2) list+=,draft:model=self,skip=8/10/12/14/16/18/20/22 ;;
    tinyllama)
      "$talon" pull stories15m --models downloads > /dev/null
      list+=,draft:model=downloads/stories15m/stories15M.bin,draft:model=downloads/stories15m/stories15M.bin,stage=suffix ;;
  esac
  list+=,lookahead+suffix
  for drafter in medusa eagle3 dflash peagle; do
    head=models/$1-$drafter
    if [ -e "$head" ]; then list+=,$drafter:head=$head+suffix; fi
  done
  head=$work/$1-eagle3.gguf # with the output rows, which the head that ships leaves to the model
  if [ -n "$eagle3" ] && [ -e "models/$1-eagle3/head.gguf" ]; then
    if "$talon" convert "models/$1-eagle3" -m "$1" --models downloads -o "$head" > /dev/null \
      && place=$(scripts/python_peer.sh openvino-eagle3 "downloads/$1"/*.gguf "$head"); then
      list+=,peer:openvino:none=$place#$head,peer:openvino:eagle3=$place#$head
    else echo "without openvino-eagle3" >&2; fi
  fi
  echo "$list$peers"
}

status=0
runs=()
for model in ${FIELD_MODELS:-smollm2 tinyllama}; do
  "$talon" pull "$model" --models downloads > /dev/null
  ended=0
  rm -f "$work/$model/spec.jsonl"
  "$talon" bench spec -m "$model" --models downloads --methods "${FIELD_METHODS:-$(methods_of "$model")}" \
    --questions tests/data/spec_bench_dev.jsonl --per-category "${FIELD_QUESTIONS:-0}" --temperature "${FIELD_TEMPERATURES:-0,1}" \
    --repeats "${FIELD_REPEATS:-1}" -n "${FIELD_TOKENS:-128}" \
    --output "$work/$model-$build.jsonl" --report "$work/$model" > /dev/null || ended=$?
  [ $ended -le 1 ] && [ -e "$work/$model/spec.jsonl" ] || exit $ended
  [ $ended = 0 ] || status=1
  runs+=("$work/$model-$build.jsonl")
done
"$talon" bench field "${runs[@]}" --report $work/page > /dev/null
if [ "${FIELD_QUESTIONS:-0}" = 0 ]; then
  for kind in jsonl md; do cp $work/page/field.$kind bench/results/field.$kind; done
fi
exit $status
