#!/bin/sh
# build.sh OUT: prog, prog-static
set -e
cd "$(dirname "$0")"
out=${1:?output folder}
mkdir -p "$out"
flags="-g -O2 -fno-optimize-sibling-calls"
gcc $flags prog.c -o "$out/prog"
gcc $flags -static prog.c -o "$out/prog-static"
