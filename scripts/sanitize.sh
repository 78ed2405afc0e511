#!/usr/bin/env bash
# Builds test programs with sanitizers and runs them without their slow suites (the quick set of talon_test).
# usage: scripts/sanitize.sh SANITIZERS BUILD_FOLDER JOBS [PROGRAM...]     programs: x_test, or `all`; default: those of the list below
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizers=$1 build=$2 jobs=$3
shift 3
programs=("$@")
[ ${#programs[@]} -gt 0 ] ||
  programs=(core_test io_test backend_test model_test sample_test tree_test draft_test engine_test runtime_test layer_kinds_test
    containment_test conformance_test io_faults_test)

cmake -S . -B "$build" -G Ninja -DTALON_SANITIZE="$sanitizers" -DTALON_TESTS=ON -DTALON_TRAIN=OFF > "$build.log" 2>&1 ||
  { cat "$build.log" >&2; exit 1; }
mv "$build.log" "$build/configure.log"
if [ "${programs[*]}" = all ]; then
  targets=(all)
  programs=(".*")
else
  targets=("${programs[@]}")
fi
ninja -C "$build" -j "$jobs" --quiet "${targets[@]}" > "$build/build.log" || { grep -A20 FAILED "$build/build.log" >&2; exit 1; }
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=handle_sigbus=0  # the tests of mapped files catch it themselves
export LSAN_OPTIONS=suppressions=$PWD/scripts/lsan_suppressions.txt:print_suppressions=0
export TSAN_OPTIONS=suppressions=$PWD/scripts/tsan_suppressions.txt
IFS='|'
ctest --test-dir "$build" -j "$jobs" -R "^Quick\.(${programs[*]})$" --output-on-failure --no-tests=error > "$build/test.log" 2>&1 ||
  { tail -60 "$build/test.log" >&2; exit 1; }
tail -6 "$build/test.log"
