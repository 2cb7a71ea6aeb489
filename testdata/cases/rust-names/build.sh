#!/bin/sh
# build.sh OUT: prog (whichever mangling this compiler has by default), prog-v0
set -e
cd "$(dirname "$0")"
out=${1:?output folder}
mkdir -p "$out"
rustc --edition 2024 -g -O prog.rs -o "$out/prog"
rustc --edition 2024 -g -O -C symbol-mangling-version=v0 prog.rs -o "$out/prog-v0"
