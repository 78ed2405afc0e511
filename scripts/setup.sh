#!/usr/bin/env bash
# Installs what building and testing need and this machine lacks. Idempotent and quiet: says what it installs.
# usage: scripts/setup.sh [fuzz|format|train]
set -euo pipefail

packages=(cmake ninja-build g++ pkg-config git python3 nlohmann-json3-dev libcli11-dev libfmt-dev
  libsentencepiece-dev libcurl4-openssl-dev libssl-dev libzstd-dev libxxhash-dev libarchive-dev libedit-dev libgtest-dev libbenchmark-dev
  libcpp-httplib-dev)
case "${1:-}" in
  fuzz) packages+=(clang-16 libclang-rt-16-dev) ;;
  format) packages+=(clang-format-14 clang-tidy-14) ;;
  train) packages+=(libtorch-dev libgloo-dev libopenblas0-pthread) ;;  # about 260 MB of downloads
esac

# tokenizers needs a Rust compiler of 2024 or later; Debian 12 carries one as rustc-web beside its old default.
if ! command -v cargo > /dev/null || ! cargo --version | awk '{split($2, v, "."); exit !(v[1] > 1 || v[2] >= 80)}'; then
  packages+=(cargo-web rustc-web)
fi
command -v pip3 > /dev/null || packages+=(python3-pip)
command -v npm > /dev/null || packages+=(npm)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' || missing+=("$package")
done
# A tool that came another way (a newer cmake in /usr/local, say) is good enough.
needed=()
for package in "${missing[@]}"; do
  case "$package" in
    cmake | git | python3 | g++) command -v "$package" > /dev/null && continue ;;
    ninja-build) command -v ninja > /dev/null && continue ;;
    pkg-config) command -v pkg-config > /dev/null && continue ;;
  esac
  needed+=("$package")
done
[ ${#needed[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo > /dev/null || { echo "setup: not root and no sudo; install these first: ${needed[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "setup: installing ${needed[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { "${as_root[@]}" apt-get update -qq && "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${needed[@]}"; } > "$log" 2>&1; then
  cat "$log" >&2
  echo "setup: apt-get could not install ${needed[*]}" >&2
  exit 1
fi
