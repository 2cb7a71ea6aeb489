#!/bin/sh
# build.sh OUT: prog
set -e
cd "$(dirname "$0")"
out=${1:?output folder}
mkdir -p "$out"
gcc -g -O1 -fno-builtin prog.c -o "$out/prog"
