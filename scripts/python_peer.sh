#!/usr/bin/env bash
# Installs an engine with a Python interface for comparisons, where it is not there yet, into build/peers, and prints the program that
# starts it as a peer of `talon bench spec` (bench/python_peer.py).
# usage: scripts/python_peer.sh openvino|transformers|openvino-eagle3 [MODEL.gguf HEAD.gguf]
# openvino-eagle3 also makes of the model and its EAGLE-3 head what OpenVINO reads (bench/openvino_eagle3.py).
# openvino takes about 300 MB; the others take the build of torch that pip finds, which on Linux may be the one for graphics cards
# and take 6 GB: pip's own settings (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS) say where a smaller one is.
set -euo pipefail
cd "$(dirname "$0")/.."
engine=${1:-} options=
case $engine in
  openvino) packages=(openvino-genai==2026.4.1.0 numpy) ;;
  openvino-eagle3)
    packages=(openvino-genai==2026.4.1.0 optimum-intel==2.2.0 "transformers<5.6" "diffusers<0.38" torch accelerate einops gguf sentencepiece)
    options=" --converted \"$PWD/build/peers/openvino-eagle3-made\"" ;;
  transformers) packages=(torch transformers==5.24.0 accelerate gguf) ;;
  *) echo "usage: $0 openvino|transformers|openvino-eagle3 [MODEL.gguf HEAD.gguf]" >&2; exit 2 ;;
esac
folder=build/peers/$engine
if [ ! -x $folder/start ]; then
  rm -rf $folder
  mkdir -p build/peers
  log=build/peers/$engine.log
  if ! { python3 -m venv $folder && $folder/bin/pip install --no-input "${packages[@]}"; } > $log 2>&1; then
    echo "$engine cannot be installed: $(tail -1 $log)" >&2
    exit 1
  fi
  printf '#!/bin/sh\nexec "%s/bin/python" "%s/bench/python_peer.py" %s "$@"%s\n' "$PWD/$folder" "$PWD" "${engine%-eagle3}" "$options" \
    > $folder/start.tmp
  chmod +x $folder/start.tmp
  mv $folder/start.tmp $folder/start
fi
if [ "$engine" = openvino-eagle3 ] && [ $# -eq 3 ]; then
  $folder/bin/python bench/openvino_eagle3.py "$2" "$3" build/peers/openvino-eagle3-made > build/peers/openvino-eagle3-made.log 2>&1 \
    || { echo "$engine: cannot convert: $(tail -1 build/peers/openvino-eagle3-made.log)" >&2; exit 1; }
fi
echo $folder/start
