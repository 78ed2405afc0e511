#!/usr/bin/env bash
# Builds everything and runs tests, one process per program: all but those labelled long, or with "quick" all but the slow suites.
# Models that tests use are fetched once into downloads/; a test whose model cannot be fetched says so and is skipped.
# usage: [CMAKE_FLAGS="..."] scripts/test.sh BUILD_FOLDER JOBS [quick]
set -euo pipefail
build=$1
jobs=$2
chosen=(-LE '^(case|long|quick)$')
[ "${3:-}" = quick ] && chosen=(-L quick)

# shellcheck disable=SC2086  # flags are words
cmake -S . -B "$build" -G Ninja -DTALON_TESTS=ON ${CMAKE_FLAGS:-} > "$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
mv "$build.log" "$build/configure.log"
ninja -C "$build" -j "$jobs" --quiet
for model in smollm2 stories15m; do
  "$build/talon" pull "$model" --models downloads || echo "test: no $model, its tests are skipped" >&2
done
ctest --test-dir "$build" -j "$jobs" "${chosen[@]}" --output-on-failure --no-tests=error 2>&1 |
  tee "$build/test.log" | grep -vE '^ *(Start|[0-9]+/[0-9]+ Test.*Passed)'
# What GoogleTest says of each program: `[  PASSED  ] 12 tests.`
awk '/^\[ +PASSED +\]/ { passed += $4 } /^\[ +SKIPPED +\] [0-9]+ test/ { skipped += $4 }
  END { printf "test: %d tests of these programs passed, %d skipped\n", passed, skipped }' "$build/Testing/Temporary/LastTest.log"
