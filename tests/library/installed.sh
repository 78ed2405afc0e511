#!/usr/bin/env bash
# Installs the library into a prefix of its own, builds tests/library/outside against it with find_package and with pkg-config, in C
# and in C++, shared and static, with AddressSanitizer and UndefinedBehaviorSanitizer too, and compares what the programs answer with
# `talon run`.
# usage: tests/library/installed.sh BUILD MODEL
set -euo pipefail
build=$(realpath "$1")
model=$(realpath "$2")
outside=$(realpath "$(dirname "$0")")/outside
prefix=$build/installed
rm -rf "$prefix" "$build/outside" "$build/outside-asan"
for part in shared library heads; do cmake --install "$build" --component $part --prefix "$prefix" > /dev/null; done

exported=$(nm -D --defined-only "$prefix/lib/libtalon.so" | awk '{print $3}' | sort)
declared=$(grep -ohE '\btalon_[a-z_]+\(' "$prefix/include/talon.h" "$prefix"/include/talon/*.h | tr -d '(' | sort -u | grep -vE '_(default|empty)$' |
  grep -vxE 'talon_(log|progress|news|round)_fn')
[ "$exported" = "$declared" ] || { echo "installed: exported and declared differ:"; diff <(echo "$exported") <(echo "$declared"); exit 1; }

# Configures and builds the programs in folder $1 with compiler flags $2.
build_outside() {
  cmake -S "$outside" -B "$1" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS="$2" -DCMAKE_CXX_FLAGS="$2" > "$1.log" 2>&1 ||
    { cat "$1.log"; exit 1; }
  ninja -C "$1" --quiet
}
build_outside "$build/outside" ""
build_outside "$build/outside-asan" "-g -fsanitize=address,undefined -fno-sanitize-recover=all"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
# shellcheck disable=SC2046  # flags are words
cc -std=c99 "$outside/answer.c" $(pkg-config --cflags --libs talon) -Wl,-rpath,"$prefix/lib" -o "$build/outside/answer_pkgconfig"

prompts=("Once upon a time" "The dog and the cat" "Tim had a red ball. Tim had a red" "Lily")
for prompt in "${prompts[@]}"; do
  "$build/talon" run -m "$model" -p "$prompt" -n 60 -d none 2> /dev/null
done > "$build/outside/expected.txt"
# The heads that are installed with the library are found without being named.
if [ -d downloads/stories15m ]; then
  drafter=$("$build/outside/answer_talon" downloads/stories15m/stories15M.bin 1 a 2>&1 > /dev/null)
  [ "$drafter" = eagle2+suffix ] || { echo "installed: expected eagle2+suffix to draft, found $drafter"; exit 1; }
fi
for program in outside/answer_talon outside/answer_talon_static outside/answer_pkgconfig outside-asan/answer_talon; do
  "$build/$program" "$model" 60 "${prompts[@]}" > "$build/$program.txt" 2> "$build/$program.log" || { cat "$build/$program.log"; exit 1; }
  diff "$build/outside/expected.txt" "$build/$program.txt" || { echo "installed: $program answers differently"; exit 1; }
done
for kind in outside outside-asan; do "$build/$kind/crowd" "$model" "${prompts[0]}"; done
