#!/usr/bin/env bash
# Builds the Python package into the build folder, runs its tests in an environment of its own, and examples/python.ipynb if smollm2 has
# been pulled.
# usage: [CMAKE_FLAGS="..."] scripts/python_test.sh BUILD JOBS [notebook]     notebook: writes that file instead
set -euo pipefail

build=$1
environment=$build/python-env
if [ ! -x "$environment/bin/pytest" ]; then
  echo "python-test: installing nanobind, numpy, pytest, mypy and what runs notebooks" >&2
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check "nanobind>=2.4" "numpy>=1.24" nbclient nbformat ipykernel pytest mypy
fi
# shellcheck disable=SC2086  # flags are words
cmake -S . -B "$build" -G Ninja -DTALON_PYTHON=ON "-DPython_EXECUTABLE=$(realpath -s "$environment/bin/python")" ${CMAKE_FLAGS:-} > "$build.log" 2>&1 ||
  { cat "$build.log" >&2; exit 1; }
mv "$build.log" "$build/configure.log"
ninja -C "$build" -j "$2" --quiet talon talon_python
PYTHONPATH=$(realpath "$build")/python
export PYTHONPATH TALON_PROGRAM=$build/talon PYTHONDONTWRITEBYTECODE=1
PATH=$(realpath -s "$environment/bin"):$PATH
if [ "${3:-}" = notebook ]; then
  python scripts/python_notebook.py
else
  mypy --strict --cache-dir "$build/mypy" python/talon
  pytest -q -p no:cacheprovider python/tests
  [ ! -e downloads/smollm2 ] || python scripts/python_notebook.py check
fi
