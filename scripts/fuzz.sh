#!/usr/bin/env bash
# Runs every libFuzzer target under AddressSanitizer and UndefinedBehaviorSanitizer, one after the other, from the checked-in
# seeds; what it learns stays in build-fuzz/. Ends with the first finding, which is kept in build-fuzz/findings/.
# usage: scripts/fuzz.sh SECONDS_PER_TARGET [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: scripts/fuzz.sh SECONDS_PER_TARGET [TARGET...]}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(cd tests/fuzz/corpus && ls)

cmake -S . -B build-fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++-16 -DTALON_FUZZ=ON -DTALON_TESTS=OFF \
  -DTALON_SANITIZE=fuzzer-no-link,address,undefined -DCMAKE_CXX_FLAGS='-fno-sanitize-recover=undefined -w' > /dev/null
ninja -C build-fuzz "${targets[@]/#/fuzz_}" > build-fuzz/build.log || { grep -A20 FAILED build-fuzz/build.log >&2; exit 1; }

export UBSAN_OPTIONS=print_stacktrace=1
mkdir -p build-fuzz/findings
for target in "${targets[@]}"; do
  mkdir -p "build-fuzz/corpus/$target"
  echo "fuzz: $target for $seconds s" >&2
  "$(find build-fuzz -name "fuzz_$target" -type f -perm -u+x)" "build-fuzz/corpus/$target" "tests/fuzz/corpus/$target" \
    -max_total_time="$seconds" -max_len=65536 -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build-fuzz/findings/$target-" > "build-fuzz/$target.log" 2>&1 ||
    { tail -60 "build-fuzz/$target.log" >&2; exit 1; }
  grep -E 'number_of_executed_units|new_units_added' "build-fuzz/$target.log" >&2
done
echo 'fuzz: no finding' >&2
