#!/usr/bin/env bash
# Makes the Debian packages of a build folder and tries what is in them: the fields, the program, and a C program that is built
# against the library, with the heads beside it, and runs with the package of the shared library alone. With `install` as root they are
# installed with dpkg, tried in place and removed.
# usage: tests/library/package.sh BUILD MODEL [install]
set -euo pipefail
build=$(realpath "$1")
model=$(realpath "$2")
source=$(realpath "$(dirname "$0")")/outside/answer.c
here=$build/packages
prompt="Once upon a time"
fail() { echo "package: $*" >&2; exit 1; }

rm -rf "$here"
mkdir -p "$here"
(cd "$build" && cpack -G DEB -B "$here" > "$here/cpack.log" 2>&1) || { cat "$here/cpack.log" >&2; exit 1; }
version=$(sed -nE 's/^Version: //p' "$build/src/c/talon.pc")
soname=$(sed -nE 's/^#define TALON_ABI_VERSION ([0-9]+)$/\1/p' "$(dirname "$source")/../../../include/talon.h")
shared=libtalon$soname
for package in talon "$shared" libtalon-dev talon-heads; do
  file=$(echo "$here/${package}_${version}_"*.deb)
  [ -f "$file" ] || fail "$package: expected ${package}_${version}_*.deb, found $(ls "$here")"
  dpkg-deb -f "$file" Depends > "$here/$package.depends"
  dpkg-deb -c "$file" | awk '$6 !~ "/$" {print $6}' | sort > "$here/$package.files"
done
[ "$(dpkg-deb -f "$here/talon_${version}_"*.deb Recommends)" = "talon-heads, python3-pip" ] || fail "recommendations are missing"
grep -q libssl "$here/talon.depends" && grep -q libfmt "$here/$shared.depends" && grep -q libfmt-dev "$here/libtalon-dev.depends" &&
  grep -qF "$shared (= $version)" "$here/libtalon-dev.depends" || fail "dependencies are missing"
replaces=$(dpkg-deb -f "$here/${shared}_${version}_"*.deb Replaces)
[ "$replaces" = "libtalon-dev (<= 0.1.0)" ] || fail "$shared: what a libtalon-dev of 0.1.0 held is not taken over, found Replaces: $replaces"
printf './usr/lib/libtalon.so.%s\n' "$version" "$soname" | sort | diff - "$here/$shared.files" || fail "$shared holds other files"
[ "$(grep -F libtalon.so "$here/libtalon-dev.files")" = ./usr/lib/libtalon.so ] || fail "libtalon-dev: expected the link alone of the library"
[ "$(dpkg-deb -I "$here/${shared}_${version}_"*.deb shlibs)" = "libtalon $soname $shared (>= $version)" ] ||
  fail "$shared: no dependency for packages that use it"

# Builds and runs the C program against what lies below $1, and compares it with the program there.
try() {
  local root=$1 flags
  flags=$(PKG_CONFIG_PATH=$root/usr/lib/pkgconfig pkg-config --define-prefix --cflags --libs talon)
  # shellcheck disable=SC2086  # flags are words
  cc -std=c99 "$source" $flags -o "$here/answer"
  LD_LIBRARY_PATH=${root:+$root/usr/lib} "$here/answer" "$model" 40 "$prompt" > "$here/answer.txt" 2> /dev/null
  "$root/usr/bin/talon" run -m "$model" -p "$prompt" -n 40 -d none 2> /dev/null | diff - "$here/answer.txt" || fail "answers differ"
  ls "$root"/usr/share/talon/models/*/*.safetensors > /dev/null || fail "no heads"
  grep -q '^ExecStart=talon serve' "$root/usr/lib/systemd/system/talon.service" || fail "no service"
  grep -q '_talon talon$' "$root/usr/share/bash-completion/completions/talon" || fail "no completion of bash"
  grep -q '^#compdef talon$' "$root/usr/share/zsh/vendor-completions/_talon" || fail "no completion of zsh"
  grep -q '^complete -c talon ' "$root/usr/share/fish/vendor_completions.d/talon.fish" || fail "no completion of fish"
}

for file in "$here"/*.deb; do dpkg-deb -x "$file" "$here/root"; done
try "$here/root"
dpkg-deb -x "$here/${shared}_${version}_"*.deb "$here/alone"
LD_LIBRARY_PATH=$here/alone/usr/lib "$here/answer" "$model" 40 "$prompt" 2> /dev/null | diff - "$here/answer.txt" ||
  fail "$shared alone: the program answers differently"
if [ "${3:-}" = install ]; then
  dpkg -i "$here"/*.deb > "$here/dpkg.log" 2>&1 || { cat "$here/dpkg.log" >&2; exit 1; }
  trap 'dpkg -P talon libtalon-dev "$shared" talon-heads > /dev/null' EXIT
  try ""
  [ "$(command -v talon)" = /usr/bin/talon ] || fail "talon is not found"
fi
