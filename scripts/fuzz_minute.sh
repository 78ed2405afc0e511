#!/usr/bin/env bash
# A minute of fuzzing in a build of scripts/sanitize.sh: every parser from its seeds, engine situations and damaged models.
# usage: scripts/fuzz_minute.sh BUILD_FOLDER JOBS
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=$2
mapfile -t parsers < <(cd tests/fuzz/corpus && ls)
ninja -C "$build" -j "$jobs" --quiet engine_fuzz load_fuzz "${parsers[@]/#/fuzz_smoke_}" > "$build/build.log" ||
  { grep -A20 FAILED "$build/build.log" >&2; exit 1; }
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export LSAN_OPTIONS=suppressions=$PWD/scripts/lsan_suppressions.txt:print_suppressions=0
# Other situations for every state of the sources, the same for one; a finding says its seed.
first=$((16#$(git rev-parse HEAD:src | head -c 6)))
log=$build/fuzz.log
run() { "$@" > "$log" 2>&1 || { tail -40 "$log" >&2; echo "fuzz: $1 found something" >&2; exit 1; }; tail -1 "$log"; }
for parser in "${parsers[@]}"; do run "$build/tests/fuzz/fuzz_smoke_$parser" "tests/fuzz/corpus/$parser" 4; done
run "$build/tests/fuzz/engine_fuzz" --seconds 20 --jobs "$jobs" --seed "$first"
run "$build/tests/fuzz/load_fuzz" --seconds 16 --jobs "$jobs" --seed "$first"
