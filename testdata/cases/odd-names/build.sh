#!/bin/sh
# build.sh OUT: "OUT/<i> & ;/prog" (clang: it quotes such names for its assembler)
set -e
cd "$(dirname "$0")"
out=${1:?output folder}
mkdir -p "$out/<i> & ;"
clang -g -O2 prog.c -o "$out/<i> & ;/prog"
