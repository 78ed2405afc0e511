#!/usr/bin/env bash
# Real clients of OpenAI's and Anthropic's interfaces against `talon serve`, in an environment of their own.
# usage: scripts/clients.sh BUILD
set -euo pipefail

build=$1
environment=$build/clients
wanted=tests/clients/requirements.txt
if ! cmp -s "$wanted" "$environment/requirements.txt"; then
  echo "clients: installing $(tr '\n' ' ' < "$wanted")" >&2
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
  cp "$wanted" "$environment/requirements.txt"
fi
[ -e downloads/smollm2 ] || "$build/talon" pull smollm2 > /dev/null
"$environment/bin/python" tests/clients/clients.py "$build/talon" smollm2
