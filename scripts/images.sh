#!/usr/bin/env bash
# Draws a sheet of pictures plainly and with drafts, fails unless they are the same, and shows both times.
# usage: scripts/images.sh TALON MODEL      MODEL: OUT/model of `talon train image model`, or a LlamaGen .pt file
#        VQ=FILE PROMPT="red heart twemoji" CLASS=207 SHEET=4x4 OUT=sheet.png DRAFTER=jacobi
set -euo pipefail
talon=$1
model=${2:-}
if [ -z "$model" ]; then
  echo "images: no image model ships with Talon: make images MODEL=FOLDER; docs/images.md tells how one is trained" >&2
  exit 2
fi
what=(-p "${PROMPT:-red heart twemoji}")
[ -z "${CLASS:-}" ] || what=(--class "$CLASS")
"$talon" image -m "$model" ${VQ:+--vq "$VQ"} "${what[@]}" --grid "${SHEET:-4x4}" -d "${DRAFTER:-jacobi}" \
  -o "${OUT:-sheet.png}" --compare
