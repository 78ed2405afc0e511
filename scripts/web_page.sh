#!/usr/bin/env bash
# Builds a page, web/PAGE/dist, which is kept in the repository so that building Talon needs no npm: report (of benches) or chat (of
# talon serve). usage: scripts/web_page.sh PAGE [check]     check: fails if it is not what the sources make; nothing to do without npm
set -euo pipefail
page=$1
cd "$(dirname "$0")/../web/$page"
if ! command -v npm > /dev/null; then
  [ "${2:-}" = check ] && { echo "web page $page: no npm, not checked"; exit 0; }
  echo "web page $page: npm is missing (make setup)" >&2
  exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
kept=$(sha256sum dist/* 2> /dev/null || true)
{ npm ci --no-audit --no-fund && npm run build; } > "$log" 2>&1 || { cat "$log" >&2; exit 1; }
if [ "${2:-}" = check ] && [ "$kept" != "$(sha256sum dist/*)" ]; then
  echo "web page $page: dist is not what web/$page makes; run make pages and commit it" >&2
  exit 1
fi
