#!/usr/bin/env bash
# usage: isa_symbols.sh NM ISA FILE, where FILE lists the object files compiled for ISA, one a line.
# Every symbol that such an object exports must have the name of its instruction set in it. Otherwise the linker
# could take, for example, the AVX-512 copy of a template for all callers, and an older processor would stop on it.
set -euo pipefail
nm=$1 isa=$2 list=$3

# DW.ref.* are pointers that unoptimised exception tables go through: data, the same in every copy.
symbols=$(while IFS= read -r object; do
  "$nm" --defined-only --extern-only --format=posix "$object"
done <"$list" | awk '!/^DW\.ref\./ && NF >= 2 { print $1, $2 }' | sort -u)

shared=$(awk -v isa="$isa" 'index($1, isa) == 0' <<<"$symbols")
if [[ -n $shared ]]; then
  echo "defined in the $isa kernels without '$isa' in the name:"
  c++filt <<<"$shared"
  exit 1
fi
if [[ -z $symbols ]]; then
  echo "no symbol at all in the objects that $list names"
  exit 1
fi
echo "$(wc -l <<<"$symbols") symbols of $(wc -l <"$list") object files, each carries '$isa'"
