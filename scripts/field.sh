#!/usr/bin/env bash
# The methods of the field on the same models and questions, at temperatures 0 and 1: one interleaved `talon bench spec` a model, then all
# of them as one page (build/field/page/field.html) and as lines that others can cite (bench/results), unless it was a try: fewer than
# four questions of each subtask, or methods that were chosen.
# Methods that need a head run where models/MODEL-METHOD is (`eagle` with that of `eagle2`), `draft` with models/MODEL-draft, `mtp` also
# where the model has a prediction layer. Stop it at any moment: the same command goes on.
# usage: scripts/field.sh TALON, with in the environment
#   FIELD_MODELS="M N"      of the catalogue (default: smollm2 tinyllama)
#   FIELD_QUESTIONS=N       first questions of each subtask only (default: all, many hours)
#   FIELD_TEMPERATURES=T,U  default 0,1
#   FIELD_METHODS=M,N       instead of the methods below
#   FIELD_TOKENS=N          most of an answer (default 128)
#   FIELD_REPEATS=N         answers of each, medians count (default 1)
#   FIELD_PEERS="P Q"       other engines (default: llama.cpp openvino, and llama.cpp@source, a newer one, where scripts/llama_cpp.sh has
#                           built it; transformers, openvino-eagle3: 6 GB), 0: none. What cannot be had is left out, and said.
#                           transformers also drafts with the model of `draft`, llama.cpp with the EAGLE-3 head of the model, and
#                           openvino-eagle3 with the same where it is a GGUF file
set -euo pipefail
cd "$(dirname "$0")/.."
talon=$1
work=build/field
build=$(sha256sum < "$talon" | cut -c -8)
mkdir -p $work bench/results
peers= llamas=() eagle3= assisted=
usual="llama.cpp openvino"
if scripts/llama_cpp.sh source --built > /dev/null; then usual="llama.cpp llama.cpp@source openvino"; fi
for peer in ${FIELD_PEERS:-$usual}; do
  case $peer in
    0) ;;
    llama.cpp | llama.cpp@source)
      kind=${peer#llama.cpp} kind=${kind#@}
      if place=$(scripts/llama_cpp.sh "${kind:-npm}"); then
        peers+=,peer:$peer=$place,peer:$peer:ngram-simple=$place
        llamas+=("$peer=$place")
        continue; fi ;;
    openvino | transformers) if place=$(scripts/python_peer.sh $peer); then
        peers+=,peer:$peer=$place,peer:$peer:prompt-lookup=$place
        [ $peer = openvino ] || assisted=$place
        continue; fi ;;
    openvino-eagle3) eagle3=1; continue ;;
    *) echo "FIELD_PEERS: expected llama.cpp, llama.cpp@source, openvino, openvino-eagle3, transformers or 0, got $peer" >&2; exit 2 ;;
  esac
  [ $peer = 0 ] || echo "without $peer" >&2
done

methods_of() { # MODEL
  local list=none,ngram,suffix,jacobi,lookahead drafter head place draft llama mtp= drafts=()
  for drafter in medusa eagle eagle2 eagle3 dflash dspark peagle; do
    head=models/$1-$drafter
    if [ $drafter = eagle ]; then head=models/$1-eagle2; fi # the same head with another tree
    if [ -e "$head" ]; then list+=,$drafter:head=$head; fi
  done
  if [ -e "models/$1-mtp" ]; then mtp=mtp:head=models/$1-mtp
  else # a prediction layer in the model's own files
    place=$("$talon" inspect "$1" --models downloads --json)
    if [[ $place == *'"mtp":'* ]]; then mtp=mtp; fi
  fi
  list+=${mtp:+,$mtp}
  if [ "$1" = tinyllama ]; then
    "$talon" pull stories15m --models downloads > /dev/null
    drafts+=(downloads/stories15m/stories15M.bin)
  fi
  if [ -e "models/$1-draft" ]; then drafts+=("models/$1-draft"); fi
  for draft in "${drafts[@]}"; do # stored in 16 or 32 bits, and read faster in 8
    list+=,draft:model=$draft,weights=int8,draft:model=$draft,weights=int8,stage=suffix
  done
  list+=,draft:model=self,weights=int4
  case $1 in
    smollm2) list+=,draft:model=self,skip=8/10/12/14/16/18/20/22 ;;
  esac
  list+=,lookahead+suffix${mtp:+,$mtp+suffix}
  for drafter in medusa eagle2 eagle3 dflash peagle; do
    head=models/$1-$drafter
    if [ -e "$head" ]; then list+=,$drafter:head=$head+suffix; fi
  done
  head=$work/$1-eagle3.gguf # with the output rows, which the head that ships leaves to the model
  if [ -n "${llamas[*]}$eagle3" ] && [ -e "models/$1-eagle3" ]; then
    if "$talon" convert "models/$1-eagle3" -m "$1" --models downloads -o "$head" > /dev/null; then
      for llama in "${llamas[@]}"; do list+=,peer:${llama%%=*}:draft-eagle3=${llama#*=}#$head; done
      if [ -z "$eagle3" ] || [ ! -e "models/$1-eagle3/head.gguf" ]; then :
      elif place=$(scripts/python_peer.sh openvino-eagle3 "downloads/$1"/*.gguf "$head"); then
        list+=,peer:openvino:none=$place#$head,peer:openvino:eagle3=$place#$head
      else echo "without openvino-eagle3" >&2; fi
    else echo "without other engines that draft with the EAGLE-3 head of $1" >&2; fi
  fi
  head=$work/$1-draft.gguf # as transformers reads it
  if [ -n "$assisted" ] && [ ${#drafts[@]} -gt 0 ]; then
    if "$talon" convert "${drafts[-1]}" -o "$head" > /dev/null; then list+=,peer:transformers:draft=$assisted#$head
    else echo "without assisted generation of transformers" >&2; fi
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
if [[ ! ${FIELD_QUESTIONS:-0} =~ ^[1-3]$ && -z ${FIELD_METHODS:-} ]]; then
  for kind in jsonl md; do cp $work/page/field.$kind bench/results/field.$kind; done
fi
exit $status
