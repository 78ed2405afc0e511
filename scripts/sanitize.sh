#!/usr/bin/env bash
# Builds with sanitizers and runs the default tests. usage: scripts/sanitize.sh SANITIZERS BUILD_FOLDER JOBS [REGEX]
set -euo pipefail
cmake -S . -B "$2" -G Ninja -DTALON_SANITIZE="$1" -DTALON_TESTS=ON > /dev/null
ninja -C "$2" -j "$3" --quiet
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
ctest --test-dir "$2" -j "$3" -LE long -R "${4:-.}" --output-on-failure --no-tests=error
