#!/usr/bin/env bash
# usage: warnings.sh COMPILER FOLDER_OF_HEADERS... -- SOURCE...
# The sources compile without a warning of those that strict projects use, in them and in the library's headers, which
# are not system headers here.
set -euo pipefail

compiler=$1
shift
headers=()
while [[ $1 != -- ]]; do
  headers+=("-I$1")
  shift
done
shift
output=$(mktemp)
trap 'rm -f "$output"' EXIT
wrong=0
for source in "$@"; do
  LC_ALL=C "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow "${headers[@]}" "$source" \
    >"$output" 2>&1 || wrong=1
  [[ ! -s $output ]] || wrong=1
  cat "$output"
done
((wrong == 0)) && echo "no warning"
exit $wrong
