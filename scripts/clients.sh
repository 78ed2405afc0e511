#!/usr/bin/env bash
# Real clients of OpenAI's and Anthropic's interfaces, and libraries that stand on them, in Python and Node, against `talon serve`.
# They are installed by pip into environments under BUILD and by npm into tests/clients/node.
# usage: scripts/clients.sh BUILD
set -euo pipefail

build=$1
# environment NAME: the packages of tests/clients/NAME.txt, for those that agree on one version of what they share.
environment() {
  local wanted=tests/clients/$1.txt folder=$build/clients/$1
  cmp -s "$wanted" "$folder/installed.txt" && return
  echo "clients: installing $(tr '\n' ' ' < "$wanted")" >&2
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
  cp "$wanted" "$folder/installed.txt"
}
environment requirements
environment older
commands=("$build/clients/requirements/bin/python tests/clients/clients.py" "$build/clients/requirements/bin/python tests/clients/frameworks.py"
  "$build/clients/older/bin/python tests/clients/older.py")
if command -v npm > /dev/null; then
  lock=tests/clients/node/package-lock.json
  cmp -s "$lock" "$build/clients/package-lock.json" ||
    { (cd tests/clients/node && npm ci --silent --no-audit --no-fund) && cp "$lock" "$build/clients/package-lock.json"; }
  commands+=("cd tests/clients/node && node --test --test-reporter=${REPORTER:-dot} *.test.mjs")
else
  echo "clients: no npm, so those of Node are left out (make setup)" >&2
fi
[ -e downloads/smollm2 ] || "$build/talon" pull smollm2 > /dev/null
scripts/tiny_icons.sh "$build/clients/icons"
python3 tests/clients/run.py "$build/talon" smollm2 "$build/clients/icons" "${commands[@]}"
