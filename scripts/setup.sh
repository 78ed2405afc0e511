#!/usr/bin/env bash
# Installs what this machine lacks. Idempotent and quiet: says what it installs. With `check` it installs nothing: it fails and
# says what is missing for `make build`.
# With `build` it installs what building needs, and nothing for tests; with `build pull` also what fetches models.
# usage: scripts/setup.sh [check | build | pull | fuzz | format | train | report | deploy | deb | image | service | python | venv | montage ...]
set -euo pipefail

packages=(cmake ninja-build g++ pkg-config git ca-certificates nlohmann-json3-dev libcli11-dev libfmt-dev libsentencepiece-dev
  libcurl4-openssl-dev libssl-dev libzstd-dev libxxhash-dev libarchive-dev libedit-dev
  libboost-dev prometheus-cpp-dev libdnnl-dev libpng-dev)
# llguidance needs a Rust compiler of 1.87 or later; Debian 12 carries one as rustc-web beside its old default. CMake takes the first
# that this finds (src/text/CMakeLists.txt).
cargo_found() { PATH="${HOME:-}/.cargo/bin:$PATH" command -v cargo cargo-1.96 cargo-web | head -1; }
cargo_is_new() { "$(cargo_found)" --version 2> /dev/null | awk '{split($2, v, "."); exit !(v[1] > 1 || v[2] >= 87)}'; }
# Another may stand before the one that was installed.
require_new_cargo() {
  cargo_is_new && return
  local found
  found=$(cargo_found || true)
  echo "setup: expected cargo 1.87 or later, found ${found:-none}${found:+ ($("$found" --version 2>&1 | head -1))}:" \
    "update it (rustup update), or remove it if there is a newer one behind it" >&2
  exit 1
}
cargo_is_new || packages+=(cargo-web rustc-web)
pip=(python3)  # `talon pull` asks it for models
command -v pip3 > /dev/null || pip+=(python3-pip)
if [ "${1:-}" != check ] && [ "${1:-}" != build ]; then
  packages+=("${pip[@]}" zstd mold libgtest-dev libbenchmark-dev libcpp-httplib-dev)
  command -v npm > /dev/null || packages+=(npm)
fi
for what in "$@"; do
  case "$what" in
    check | build) ;;
    pull) packages+=("${pip[@]}") ;;
    fuzz) packages+=(clang-16 libclang-rt-16-dev) ;;
    format) packages+=(clang-format-14 clang-tidy-14) ;;
    train) packages+=(libtorch-dev libgloo-dev libopenblas0-openmp) ;;  # about 260 MB of downloads; threads are shared with torch
    report) packages+=(chromium) ;;  # looks at the pages
    deploy) packages+=(haproxy prometheus) ;;
    deb) packages+=(dpkg-dev file) ;;  # CPack asks file(1) what is a program
    image) packages+=(debootstrap) ;;
    service) packages+=(debootstrap systemd-container) ;;
    python) packages+=(python3-dev python3-venv) ;;
    venv) packages+=(python3-venv) ;;
    montage) packages+=(imagemagick) ;;
    *) echo "setup: expected check, build, pull, fuzz, format, train, report, deploy, deb, image, service, python, venv or montage, found $what" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' && continue
  # A tool that came another way (a newer cmake in /usr/local, say) is good enough.
  case "$package" in
    cmake | git | python3 | g++) command -v "$package" > /dev/null && continue ;;
    ninja-build) command -v ninja > /dev/null && continue ;;
    ca-certificates) [ -e /etc/ssl/certs/ca-certificates.crt ] && continue ;;
    pkg-config) command -v pkg-config > /dev/null && continue ;;
  esac
  missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  require_new_cargo
  exit 0
fi
if [ "${1:-}" = check ]; then
  echo "build: missing ${missing[*]}" >&2
  echo "build: make setup installs them (with apt, as root or through sudo)" >&2
  exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo > /dev/null || { echo "setup: not root and no sudo; install these first: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo env DEBIAN_FRONTEND=noninteractive)  # which sudo does not hand on
fi
echo "setup: installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { "${as_root[@]}" apt-get update -qq && "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } > "$log" 2>&1; then
  cat "$log" >&2
  echo "setup: apt-get could not install ${missing[*]}" >&2
  exit 1
fi
require_new_cargo
