#!/bin/sh
# build.sh OUT: one folder a variant, each with prog; OUT/debug as a folder of debug files
set -e
cd "$(dirname "$0")"
out=${1:?output folder}
rm -rf "$out/debug"

# Compiles SOURCE into OUT/VARIANT/full, with this build id.
compile() {
  mkdir -p "$out/$2"
  gcc -g -O2 -Wl,--build-id="$3" "$1" -o "$out/$2/full"
}

# full -> prog (stripped) and prog.debug
split() {
  objcopy --only-keep-debug "$out/$1/full" "$out/$1/prog.debug"
  objcopy --strip-all "$out/$1/full" "$out/$1/prog"
  rm "$out/$1/full"
}

link() {
  (cd "$out/$1" && objcopy --add-gnu-debuglink=prog.debug prog)
}

# Moves FILE to where a file with this build id is looked for.
place() {
  folder="$out/debug/.build-id/$(echo "$2" | cut -c1-2)"
  mkdir -p "$folder"
  mv "$1" "$folder/$(echo "$2" | cut -c3-).debug"
}

# Another program: other names, other lines.
mkdir -p "$out"
{ printf '\n\n\n'; sed 's/keep/wrong/g; s/copy_of/wrong_copy/g' prog.c; } > "$out/other.c"

compile prog.c beside none
split beside
link beside

compile prog.c sub-folder sha1
split sub-folder
link sub-folder
mkdir -p "$out/sub-folder/.debug"
mv "$out/sub-folder/prog.debug" "$out/sub-folder/.debug/"

compile prog.c build-id 0x5e9a7a7e00000001
split build-id
place "$out/build-id/prog.debug" 5e9a7a7e00000001

compile prog.c compressed none
split compressed
objcopy --compress-debug-sections=zlib-gnu "$out/compressed/prog.debug"
link compressed

# What two debug files have in common is moved to a third.
compile prog.c shared none
split shared
cp "$out/shared/prog.debug" "$out/shared/second.debug"
(cd "$out/shared" && dwz -m common.dwz prog.debug second.debug)
link shared

# Symbols compressed into the program, as Fedora has them.
compile prog.c minimal none
objcopy --strip-debug "$out/minimal/full" "$out/minimal/symbols"
xz -f "$out/minimal/symbols"
split minimal
(cd "$out/minimal" && rm prog.debug && objcopy --add-section=.gnu_debugdata=symbols.xz prog)

compile prog.c other-checksum none
split other-checksum
link other-checksum
compile "$out/other.c" other none
split other
mv "$out/other/prog.debug" "$out/other-checksum/prog.debug"

compile prog.c other-id 0x5e9a7a7e00000002
split other-id
rm "$out/other-id/prog.debug"
compile "$out/other.c" other 0x5e9a7a7e00000003
split other
place "$out/other/prog.debug" 5e9a7a7e00000002
