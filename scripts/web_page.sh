#!/usr/bin/env bash
# Builds a page, web/PAGE/dist, which is kept in the repository so that building Talon needs no npm: report (of benches) or chat (of
# talon serve). usage: scripts/web_page.sh PAGE
set -euo pipefail
page=$1
cd "$(dirname "$0")/../web/$page"
if ! command -v npm > /dev/null; then
  echo "web page $page: npm is missing (make setup)" >&2
  exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ npm ci --no-audit --no-fund && npm run build; } > "$log" 2>&1 || { cat "$log" >&2; exit 1; }
# What it was built of, which tests/style compares with what lies here.
find src index.html package-lock.json vite.config.ts -type f | LC_ALL=C sort | xargs sha256sum > dist/sources.txt
