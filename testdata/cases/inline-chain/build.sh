#!/bin/sh
# build.sh OUT: prog-gcc, prog-gcc-lto, prog-clang
set -e
cd "$(dirname "$0")"
out=${1:?output folder}
mkdir -p "$out"
flags="-g -O2 -fno-optimize-sibling-calls"
g++ $flags prog.cc far.cc -o "$out/prog-gcc"
g++ $flags -flto prog.cc far.cc -o "$out/prog-gcc-lto"
clang++ $flags prog.cc far.cc -o "$out/prog-clang"
