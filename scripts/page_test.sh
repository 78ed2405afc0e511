#!/usr/bin/env bash
# The page of `talon serve` in Chromium (Debian's) by Playwright, against a server with SmolLM2.
# usage: scripts/page_test.sh BUILD [FOLDER for pictures]
set -euo pipefail
cd "$(dirname "$0")/.."

talon=$(realpath "$1")/talon
scripts/setup.sh report
[ -d web/chat/node_modules/playwright-core ] || (cd web/chat && npm ci --silent --no-audit --no-fund)
[ -e downloads/smollm2 ] || "$talon" pull smollm2 > /dev/null
log=$(mktemp)
"$talon" serve -m smollm2 --port 0 2> "$log" &
server=$!
trap 'kill $server 2> /dev/null; rm -f "$log"' EXIT
for _ in $(seq 600); do
  url=$(sed -nE 's/^listening on (http[^ ]+).*/\1/p' "$log")
  [ -n "$url" ] && break
  kill -0 $server || { cat "$log" >&2; exit 1; }
  sleep 0.1
done
if [ $# -gt 1 ]; then export SHOTS=$(realpath -m "$2"); fi
cd web/chat && TALON_URL=$url node --test --test-reporter=${REPORTER:-dot} tests/page.test.mjs
