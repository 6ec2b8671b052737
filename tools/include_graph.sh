#!/usr/bin/env bash
# usage: tools/include_graph.sh [--depth N] [--dot] [FOLDER...]
# Draws the folders of the source tree and their includes: for each folder its files and lines, for each arrow the
# number of includes. Text by default (a table, then the arrows); with --dot a graph for `dot -Tsvg`. --depth 2 shows
# the folders inside folders. Without FOLDER, the libraries' folders.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

depth=1 form=text folders=()
while (($#)); do
  case $1 in
    -h | --help)
      sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --depth)
      [[ ${2-} =~ ^[1-9]$ ]] || { echo "include_graph: --depth needs a number from 1 to 9, got '${2-}'" >&2 && exit 2; }
      depth=$2 && shift
      ;;
    --dot) form="dot" ;;
    -*) echo "include_graph: unknown option $1" >&2 && exit 2 ;;
    *) folders+=("${1%/}") ;;
  esac
  shift
done
((${#folders[@]})) || folders=(tensor autograd nn optim data models dist)
for folder in "${folders[@]}"; do
  [[ -d $folder ]] || { echo "include_graph: no folder '$folder' in $PWD" >&2 && exit 2; }
done

# shellcheck disable=SC2016
git ls-files -z -- "${folders[@]}" | grep -zE '\.(h|cpp|cu|cuh)$' | xargs -0 awk -v depth="$depth" -v form="$form" '
  function folder_of(path,    parts, n, i, name) {
    n = split(path, parts, "/")
    name = parts[1]
    for (i = 2; i <= depth && i < n; ++i) name = name "/" parts[i]
    return name
  }
  FNR == 1 { here = folder_of(FILENAME); ++files[here] }
  { ++lines[here] }
  /^#include "/ {
    split($0, quoted, "\"")
    there = folder_of(quoted[2])
    if (there != here) ++arrows[here " " there]
  }
  END {
    if (form == "dot") {
      print "digraph includes {\n  rankdir = BT\n  node [shape = box, fontname = \"sans-serif\"]"
      for (f in files) printf "  \"%s\" [label = \"%s\\n%d files, %d lines\"]\n", f, f, files[f], lines[f] | "sort"
      close("sort")
      for (a in arrows) { split(a, ends, " "); printf "  \"%s\" -> \"%s\" [label = %d]\n", ends[1], ends[2], arrows[a] | "sort" }
      close("sort")
      print "}"
      exit
    }
    printf "%-24s %6s %7s\n", "folder", "files", "lines"
    for (f in files) printf "%-24s %6d %7d\n", f, files[f], lines[f] | "sort"
    close("sort")
    printf "\n%-24s    %-24s %s\n", "folder", "includes from", "times"
    for (a in arrows) { split(a, ends, " "); printf "%-24s -> %-24s %5d\n", ends[1], ends[2], arrows[a] | "sort" }
    close("sort")
  }'
