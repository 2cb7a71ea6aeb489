#!/bin/sh
# build.sh OUT: OUT/LAYOUT/{prog,libtake.so}
set -e
cd "$(dirname "$0")"
out=${1:?output folder}
link() { # layout, linker, further flags
	folder="$out/$1" linker=$2
	shift 2
	mkdir -p "$folder"
	gcc -g -O2 -fPIC -shared -fuse-ld="$linker" lib.c -o "$folder/libtake.so"
	gcc -g -O2 -fuse-ld="$linker" "$@" prog.c -o "$folder/prog" -L"$folder" -ltake -Wl,-rpath,'$ORIGIN'
}
link bfd bfd
link bfd-no-pie bfd -no-pie
link bfd-together bfd -Wl,-z,noseparate-code
link lld lld
link lld-rosegment lld -Wl,--no-rosegment
link mold mold
