#!/usr/bin/env bash
# usage: examples.sh SOURCE_FOLDER PROGRAM...
# The programs of tools/examples/cuda show what they say, and tensor/cuda/README.md quotes their kernels and their output.
set -uo pipefail
folder=$1
shift
failed=0
fail() {
  printf '%s\n' "$*"
  failed=1
}

# A program fails where a count or a finding is not as it teaches.
output=
for program in "$@"; do
  for order in eager lazy random; do
    printed=$(TESSERA_CUDA_SIM_ORDER=$order "$program" 2>&1) || fail "$program, $order: failed: $printed"
  done
  output+=$printed$'\n'
done

# Lines of code stand in a source; lines of output begin as the README has them.
code=$(cat "$folder"/tools/examples/cuda/*.cu)
quotes=0
while IFS= read -r line; do
  [[ -z $line ]] || grep -qF -- "$line" <<<"$code" || fail "no program has the line: $line"
  quotes=$((quotes + 1))
done < <(awk '/^```/ { inside = /^```cuda/; next } inside' "$folder/tensor/cuda/README.md")
while IFS= read -r line; do
  grep -qF -- "$line" <<<"$output" || fail "no program prints: $line"
  quotes=$((quotes + 1))
done < <(awk '/^## / { here = /^## Four kernels/ } /^```/ { fence = !fence } here && !fence && sub(/^    /, "") && !/ build\// { print }' \
  "$folder/tensor/cuda/README.md")
((quotes > 15)) || fail "expected more than 15 quoted lines in tensor/cuda/README.md, found $quotes"
exit $failed
