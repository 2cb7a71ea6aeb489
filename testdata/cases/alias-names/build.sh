#!/bin/sh
# build.sh OUT: prog, libtake.so
set -e
cd "$(dirname "$0")"
out=${1:?output folder}
mkdir -p "$out"
gcc -g -O2 -fno-builtin -fPIC -shared lib.c -o "$out/libtake.so"
gcc -g -O2 -fno-builtin -pthread prog.c -o "$out/prog" -L"$out" -ltake -Wl,-rpath,'$ORIGIN'
