#!/bin/sh
# build.sh OUT: prog-gcc, prog-clang
set -e
cd "$(dirname "$0")"
out=${1:?output folder}
mkdir -p "$out"
flags="-g -O2 -fomit-frame-pointer -fno-optimize-sibling-calls"
gcc $flags -fno-toplevel-reorder -falign-functions=1 prog.c -o "$out/prog-gcc"
clang $flags prog.c -o "$out/prog-clang"
