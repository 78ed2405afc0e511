#!/usr/bin/env bash
# Installs the Python package: into the environment that is active, or else into PYTHON's own, or, where the system keeps that to itself
# (as Debian does), into BUILD/python.
# usage: [PYTHON=python3] scripts/python.sh BUILD
set -euo pipefail

python=${PYTHON:-python3}
if "$python" - << 'CHECK'; then
import pathlib, sys, sysconfig
kept = sys.prefix == sys.base_prefix and pathlib.Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists()
sys.exit(0 if kept else 1)
CHECK
  "$python" -m venv "$1/python"
  python=$1/python/bin/python
  echo "python: this system keeps $(command -v "${PYTHON:-python3}") to itself; installing into $1/python" >&2
fi
"$python" -m pip install --disable-pip-version-check .
(cd / && "$python" -c 'import sys, talon; print(f"python: talon {talon.__version__} for {sys.executable}")') >&2
