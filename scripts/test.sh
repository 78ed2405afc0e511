#!/usr/bin/env bash
# Builds everything and runs the default tests. Models that tests use are fetched once into downloads/; a test whose model
# cannot be fetched says so and is skipped.
# usage: scripts/test.sh BUILD_FOLDER JOBS
set -euo pipefail
build=$1
jobs=$2

cmake -S . -B "$build" -G Ninja -DTALON_TESTS=ON > /dev/null
ninja -C "$build" -j "$jobs" --quiet
for model in smollm2 stories15m; do
  "$build/talon" pull "$model" --models downloads || echo "test: no $model, its tests are skipped" >&2
done
ctest --test-dir "$build" -j "$jobs" -LE long --output-on-failure --no-tests=error 2>&1 | tee "$build/test.log" | grep -vE '^ *(Start|[0-9]+/[0-9]+ Test.*Passed)' 
