#!/usr/bin/env bash
# usage: symbols.sh NM STAND_IN REAL
# Every symbol of CUDA's runtime, with its version, is in the library that stands in for it.
set -euo pipefail
nm=$1 stand_in=$2 real=$3
[[ -f $real ]] || { echo "skipped: there is no $real"; exit 77; }
names() { "$nm" -D --defined-only --with-symbol-versions "$1" | awk '{print $3}' | grep @ | sort -u; }
missing=$(comm -13 <(names "$stand_in") <(names "$real"))
[[ -z $missing ]] || { echo "missing:"; echo "$missing"; exit 1; }
