#!/usr/bin/env bash
# Compares the drafting policies: tunes the options of each on one half of the development questions and reports its best setting on the
# other, for the drafters eagle3 and eagle3+suffix, all settings interleaved. Trains the networks of ada_eagle and radar, on questions of
# the first half answered at the temperature of the comparison, where build/policies has none. Stop it at any moment: the same command
# goes on (training begins anew). Results go to bench/results, or to build/policies if one of the first four settings is given.
# usage: scripts/compare_policies.sh TALON TALON_TRAIN, with in the environment
#   POLICIES_TUNE=N            questions of each category to tune on (default 4, 0: the whole half)
#   POLICIES_REPORT=N          questions of each category to report on (default 0: the whole half)
#   POLICIES_TEMPERATURES=T    default "0 1", each a comparison of its own
#   POLICIES_ONLY=P            of these policies only, "throughput ddd"
#   POLICIES_TRAIN_MINUTES=N   at most, for each of the three networks of a temperature (default 10)
#   POLICIES_TRAIN_QUESTIONS=N that they learn from (default 60)
set -euo pipefail
cd "$(dirname "$0")/.."
talon=$1 trainer=$2
head=models/smollm2-eagle3
work=build/policies
build=$(sha256sum < "$talon" | cut -c -8)
results=bench/results
if [ -n "${POLICIES_TUNE:-}${POLICIES_REPORT:-}${POLICIES_TEMPERATURES:-}${POLICIES_ONLY:-}" ]; then results=$work; fi
mkdir -p $work $results
"$talon" pull smollm2 --models downloads > /dev/null
python3 bench/policies.py split tests/data/spec_bench_dev.jsonl $work/tune.jsonl $work/report.jsonl

train() { # NAME KIND DRAFTER options...
  local out=$networks/$1
  [ -e "$out/$2.safetensors" ] && return
  # An interrupt ends training with its best epoch so far; of one by a person, whom --foreground lets through, nothing is kept.
  trap 'rm -f "$out/$2.safetensors"; exit 130' INT
  timeout --foreground --signal=INT $((${POLICIES_TRAIN_MINUTES:-10} * 60)) "$trainer" train policy -m smollm2 --models downloads --kind "$2" -d "$3" \
    --questions $work/tune.jsonl --limit "${POLICIES_TRAIN_QUESTIONS:-60}" --temperatures "$temperature" -o "$out" "${@:4}" >&2 || true
  [ -e "$out/$2.safetensors" ] || { echo "compare_policies: training of $1 wrote no network: more minutes or fewer questions" >&2; exit 1; }
  trap - INT
}

status=0
measure() { # NAME QUESTIONS PER_CATEGORY TEMPERATURE METHODS
  local ended=0
  rm -f "$work/$1/spec.jsonl"
  "$talon" bench spec -m smollm2 --models downloads --questions "$2" --per-category "$3" --temperature "$4" --methods "$5" -n 128 \
    --output "$work/$1-$build.jsonl" --report "$work/$1" > /dev/null || ended=$?
  [ $ended -le 1 ] && [ -e "$work/$1/spec.jsonl" ] || exit $ended
  [ $ended = 0 ] || status=1
}
runs=()
for temperature in ${POLICIES_TEMPERATURES:-0 1}; do
  networks=$work/networks-$temperature
  train ordinal ada_eagle eagle3:topk=1,head=$head
  train asymmetric ada_eagle eagle3:topk=1,head=$head --loss asymmetric
  train radar radar eagle3:head=$head --nodes 7
  settings=$(python3 bench/policies.py settings $head "$networks" ${POLICIES_ONLY:-})
  measure "tune-$temperature" $work/tune.jsonl "${POLICIES_TUNE:-4}" "$temperature" "$settings"
  best=$(python3 bench/policies.py best "$work/tune-$temperature/spec.jsonl")
  measure "report-$temperature" $work/report.jsonl "${POLICIES_REPORT:-0}" "$temperature" "$best"
  runs+=("$work/report-$temperature/spec.jsonl")
done
cat "${runs[@]}" > $results/policies.jsonl
python3 bench/table.py policies $results/policies.jsonl $results/policies.md
exit $status
