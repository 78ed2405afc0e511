#!/usr/bin/env bash
# Draws a sheet of pictures plainly and with drafts, fails unless they are the same, and shows both times.
# usage: scripts/images.sh TALON [MODEL]      MODEL: emoji, OUT/model of `talon train image model`, or a LlamaGen .pt file
#        VQ=FILE PROMPT="red heart twemoji" CLASS=207 SHEET=4x4 OUT=sheet.png DRAFTER=auto
set -euo pipefail
talon=$1
model=${2:-emoji}
what=(-p "${PROMPT:-red heart twemoji}")
[ -z "${CLASS:-}" ] || what=(--class "$CLASS")
"$talon" image -m "$model" ${VQ:+--vq "$VQ"} "${what[@]}" --grid "${SHEET:-4x4}" -d "${DRAFTER:-auto}" \
  -o "${OUT:-sheet.png}" --compare
