#!/bin/sh
# build.sh OUT: prog
set -e
cd "$(dirname "$0")"
out=${1:?output folder}
mkdir -p "$out"
g++ -std=c++17 -g -O2 -fno-optimize-sibling-calls -pthread prog.cc -o "$out/prog"
