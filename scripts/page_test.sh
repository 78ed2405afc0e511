#!/usr/bin/env bash
# The page of `talon serve` in Chromium (Debian's) by Playwright, against a server with SmolLM2 and a tiny image model, and one with
# that image model alone. usage: scripts/page_test.sh BUILD [FOLDER for pictures]     TESTS=NAME: of web/chat/tests/NAME.test.mjs alone
set -euo pipefail
cd "$(dirname "$0")/.."

talon=$(realpath "$1")/talon
scripts/setup.sh report
[ -d web/chat/node_modules/playwright-core ] || (cd web/chat && npm ci --silent --no-audit --no-fund)
[ -e downloads/smollm2 ] || "$talon" pull smollm2 > /dev/null
place=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2> /dev/null; rm -rf "$place"' EXIT

icons=$place/icons
scripts/tiny_icons.sh "$icons"

# serve NAME MODEL...: starts a server; its address is written to $place/NAME.url
serve() {
  local log=$place/$1.log
  : > "$log"  # sed reads it before the server may have opened it
  "$talon" serve --port 0 "${@:2}" 2> "$log" &
  servers+=($!)
  for _ in $(seq 600); do
    sed -nE 's/^listening on (http[^ ]+).*/\1/p' "$log" > "$place/$1.url"
    [ -s "$place/$1.url" ] && return
    kill -0 "${servers[-1]}" || { cat "$log" >&2; exit 1; }
    sleep 0.1
  done
}
serve both -m smollm2 -m "icons=$icons"
serve icons -m "icons=$icons"
if [ $# -gt 1 ]; then export SHOTS=$(realpath -m "$2"); fi
TALON_URL=$(cat "$place/both.url")
DRAW_URL=$(cat "$place/icons.url")
export TALON_URL DRAW_URL
cd web/chat
files=(tests/*.test.mjs)
[ -z "${TESTS:-}" ] || files=("tests/$TESTS.test.mjs")
node --test --test-concurrency=1 --test-reporter="${REPORTER:-dot}" "${files[@]}"
