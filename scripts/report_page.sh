#!/usr/bin/env bash
# Builds the page of reports, web/report/dist/index.html, which is kept in the repository so that building Talon needs no npm.
# usage: scripts/report_page.sh [check]     check: fails if the file is not the one that the sources make; nothing to do without npm
set -euo pipefail
cd "$(dirname "$0")/../web/report"
if ! command -v npm > /dev/null; then
  [ "${1:-}" = check ] && { echo 'report page: no npm, not checked'; exit 0; }
  echo 'report page: npm is missing (make setup)' >&2
  exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
kept=$(sha256sum dist/index.html 2> /dev/null || true)
{ npm ci --no-audit --no-fund && npm run build; } > "$log" 2>&1 || { cat "$log" >&2; exit 1; }
if [ "${1:-}" = check ] && [ "$kept" != "$(sha256sum dist/index.html)" ]; then
  echo 'report page: dist/index.html is not what web/report makes; run make report and commit it' >&2
  exit 1
fi
