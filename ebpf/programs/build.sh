#!/bin/sh
# Compile the programs: build.sh [DIRECTORY], else in place. The objects are committed, so that
# nobody needs a compiler to run Flyball; one version of it is pinned, so that they can be compared.
set -eu
pinned=14
source=$(cd "$(dirname "$0")" && pwd)
target=$(cd "${1:-$source}" && pwd)
clang=$(command -v "clang-$pinned" || command -v clang)
strip=$(command -v "llvm-strip-$pinned" || command -v llvm-strip)
found=$("$clang" -dumpversion | cut -d. -f1)
if [ "$found" != "$pinned" ]; then
	echo "clang $pinned is needed, and this is clang $found" >&2
	exit 2
fi
# The objects name their sources: relative to these, so that it does not matter where they lie.
cd "$source"
for program in *.bpf.c; do
	object=$target/$(basename "$program" .c).o
	# Version 3 of the instructions has the addition that returns what was there before.
	"$clang" -O2 -g -target bpf -mcpu=v3 -Wall -Werror -Wno-unused-function \
		-D__TARGET_ARCH_x86 -I. -idirafter "/usr/include/$(uname -m)-linux-gnu" \
		-fdebug-compilation-dir=. -c "$program" -o "$object"
	"$strip" -g "$object"
done
