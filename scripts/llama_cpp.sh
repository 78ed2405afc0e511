#!/usr/bin/env bash
# llama.cpp's programs for comparisons: makes them where they are not there yet, and prints their folder.
# They are made aside: a run that was cut short leaves no folder that looks whole. A build goes on where it was stopped.
# usage: scripts/llama_cpp.sh [npm]             build b9844, from the npm package u-llm-server 2.9.1
#        scripts/llama_cpp.sh source [--built]  a newer one, from the source tree in the Python package llama-cpp-python 0.3.36, built for
#                                               this processor (15 minutes on two cores, once). --built: fails where it is not built
set -euo pipefail
cd "$(dirname "$0")/.."

from_npm() {
  local peer=downloads/peer/package/binaries/llama-b9844
  if [ ! -x "$peer/llama-server" ]; then
    rm -rf downloads/peer
    mkdir -p downloads/peer/aside
    (cd downloads/peer/aside && npm pack --silent u-llm-server@2.9.1 > /dev/null && tar xzf u-llm-server-2.9.1.tgz)
    chmod +x downloads/peer/aside/package/binaries/llama-*/llama-*
    mv downloads/peer/aside/package downloads/peer/
    rm -rf downloads/peer/aside
  fi
  echo "$peer"
}

package=llama_cpp_python-0.3.36
sum=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e # of its archive
commit=0c1e57098                                                     # of llama.cpp in it
aside=downloads/peer-source/aside

give_up() { # MESSAGE [LOG]
  if [ -n "${2:-}" ]; then tail -n 20 "$2" >&2; fi
  echo "llama_cpp.sh: $1" >&2
  exit 1
}

fetch_source() { # to $aside/llama.cpp
  [ ! -e $aside/llama.cpp ] || return 0
  rm -rf $aside
  mkdir -p $aside/package
  python3 -m pip download --quiet --disable-pip-version-check --no-input --no-deps --no-binary :all: \
    --dest $aside/package llama-cpp-python==0.3.36 > $aside/pip.log 2>&1 \
    || give_up "pip cannot fetch llama-cpp-python 0.3.36" $aside/pip.log
  sha256sum --check --status <<< "$sum  $aside/package/$package.tar.gz" \
    || give_up "$package.tar.gz: expected the archive with sha256 $sum, found another"
  tar xzf $aside/package/$package.tar.gz -C $aside/package --exclude=.git $package/vendor/llama.cpp
  mv $aside/package/$package/vendor/llama.cpp $aside/
  rm -rf $aside/package
}

build_source() { # FOLDER
  local build=$aside/${1##*/} log=$aside/build.log programs=(llama-server llama-bench llama-batched-bench) version
  # Without git, which would name the commit of the repository around it, and without the page of the server, which it would download.
  nice -n 19 cmake -S $aside/llama.cpp -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON \
    -DGGML_CCACHE=OFF -DLLAMA_BUILD_NUMBER=0 -DLLAMA_BUILD_COMMIT=$commit -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF > $log 2>&1 \
    || give_up "llama.cpp cannot be configured" $log
  echo "llama_cpp.sh: building llama.cpp $commit, once; $log" >&2
  nice -n 19 ninja -C "$build" "${programs[@]}" >> $log 2>&1 || give_up "llama.cpp cannot be built" $log
  rm -rf $aside/whole
  mkdir $aside/whole
  for program in "${programs[@]}"; do cp "$build/bin/$program" $aside/whole/; done
  version=$($aside/whole/llama-server --version 2>&1) || give_up "the llama-server that was built does not run: $version"
  [[ $version == *$commit* ]] || give_up "expected a llama-server of commit $commit, found: $version"
  rm -rf "$1"
  mv $aside/whole "$1"
  rm -rf $aside
}

from_source() { # [--built]
  local processor folder tool
  processor=$({ grep -m 1 -E '^(flags|Features)' /proc/cpuinfo || uname -m; } 2> /dev/null | sha256sum | cut -c -8)
  folder=downloads/peer-source/llama-$commit-$processor
  if [ ! -x "$folder/llama-server" ]; then
    [ "${1:-}" != --built ] || exit 1
    for tool in cmake ninja c++ python3; do
      command -v $tool > /dev/null || give_up "expected $tool, which make setup installs"
    done
    fetch_source
    build_source "$folder"
  fi
  echo "$folder"
}

case "${1:-npm} ${2:-}" in
  "npm ") from_npm ;;
  "source " | "source --built") from_source "${2:-}" ;;
  *) echo "usage: $0 [npm | source [--built]]" >&2; exit 2 ;;
esac
