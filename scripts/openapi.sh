#!/usr/bin/env bash
# Requests made of OpenAI's published description by schemathesis, in an environment of its own, against `talon serve`.
# usage: scripts/openapi.sh BUILD EXAMPLES
set -euo pipefail

build=$1
environment=$build/schemathesis
if [ ! -x "$environment/bin/st" ]; then
  echo "openapi: installing schemathesis" >&2
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check schemathesis==4.32
fi
python3 tests/openapi/run.py "$build/talon" "$(realpath "$environment/bin/st")" "$2" "$build/openapi"
