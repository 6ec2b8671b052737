#!/usr/bin/env bash
# usage: installed_headers.sh FOLDER COMPILER
# Checks the headers that were installed in FOLDER/tessera: every one that they include is installed too, and those
# that <tessera/tessera.h> does not include itself compile alone.
set -euo pipefail
[[ $# == 2 && -f $1/tessera/tessera.h ]] \
  || { echo "usage: installed_headers.sh FOLDER COMPILER; got '$*'" >&2 && exit 2; }
folder=$1 compiler=$2

# missing FOLDER: the includes of headers that are not there, as FILE:PATH.
missing() {
  local file path
  grep -rHoE --include='*.h' '^ *# *include *"[^"]+' "$1" | sed -E 's/:[^"]*"/:/' | while IFS=: read -r file path; do
    [[ -f $1/$path ]] || echo "$file: includes \"$path\", which is not installed"
  done
}

# A test of the check: one include of two is missing.
project=$(mktemp -d)
trap 'rm -rf "$project"' EXIT
mkdir "$project/tessera"
touch "$project/tessera/shape.h"
printf '#include "tessera/shape.h"\n#include "tessera/kernel.h"\n' >"$project/tessera/tensor.h"
if [[ $(missing "$project") != *'tensor.h: includes "tessera/kernel.h", which is not installed' ]]; then
  echo "the check itself is broken: expected one missing include, found: $(missing "$project")"
  exit 1
fi

wrong=$(missing "$folder")
[[ -z $wrong ]] || { echo "$wrong" && exit 1; }

# The umbrella's own headers are compiled in order by every user of it; each is found above.
mapfile -t others < <(cd "$folder" && comm -23 <(find tessera -mindepth 2 -name '*.h' | LC_ALL=C sort) \
  <(sed -n 's/^#include "\(.*\)"$/\1/p' tessera/tessera.h | LC_ALL=C sort))
compile() {
  "$1" -std=c++20 -fsyntax-only -I "$2" -include "$3" -x c++ /dev/null || { echo "$3 does not compile alone" && exit 1; }
}
export -f compile
((${#others[@]} == 0)) || printf '%s\n' "${others[@]}" | xargs -P 2 -I{} bash -c 'compile "$@"' _ "$compiler" "$folder" {}
echo "every include of $(find "$folder/tessera" -name '*.h' | wc -l) headers is installed; ${#others[@]} compile alone"
