#!/bin/sh
# build.sh OUT: prog, other
set -e
cd "$(dirname "$0")"
out=${1:?output folder}
mkdir -p "$out"
gcc -g -O2 prog.c -o "$out/prog"
gcc -g -O2 other.c -o "$out/other"
