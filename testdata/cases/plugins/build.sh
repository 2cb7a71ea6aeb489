#!/bin/sh
# build.sh OUT: prog, one.so, two.so
set -e
cd "$(dirname "$0")"
out=${1:?output folder}
mkdir -p "$out"
gcc -g -O2 -fPIC -shared -DLETTER=one -DBYTES=8401 plugin.c -o "$out/one.so"
gcc -g -O2 -fPIC -shared -DLETTER=two -DBYTES=8402 plugin.c -o "$out/two.so"
gcc -g -O2 prog.c -o "$out/prog"
