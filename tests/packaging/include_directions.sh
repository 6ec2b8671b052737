#!/usr/bin/env bash
# usage: include_directions.sh ROOT
# Checks that every folder below ROOT includes only the folders that the tables below allow.
set -euo pipefail
[[ $# == 1 && -d $1 ]] || { echo "usage: include_directions.sh ROOT, the folder of the sources; got '$*'" >&2 && exit 2; }

declare -A may=(
  [tensor]="tensor"
  [autograd]="tensor autograd"
  [nn]="tensor autograd nn"
  [optim]="tensor autograd optim"
  [data]="tensor data"
  [models]="tensor autograd nn models"
  [dist]="tensor autograd nn optim data dist"
  [tools]="tensor autograd nn optim data models dist tools"
  [tests]="tensor autograd nn optim data models dist tools tests"
)
# For each folder inside a folder, those that it may not include: kernels are below the operations that call them.
declare -A may_not=(
  [dist/checkpoint]="data dist/train"
  [dist/comm]="data dist/train"
  [dist/fsdp]="data dist/train"
  [dist/launch]="data dist/train"
  [dist/mesh]="data dist/train"
  [tensor/arguments]="tensor/ops tensor/cpu tensor/cuda"
  [tensor/cpu]="tensor/ops tensor/cuda"
  [tensor/cuda]="tensor/ops tensor/cpu"
  [tensor/elementwise]="tensor/ops tensor/arguments tensor/cpu tensor/cuda"
)
# For each external library, the folders that may include its headers.
declare -A library=(
  ["Eigen/"]="tensor tests"
  ["dnnl|oneapi/dnnl/"]="tensor"
  ["omp\.h"]="tensor"
  ["mpi\.h"]="dist tests"
  ["json/"]="tensor dist tools tests"
  ["google/protobuf/|tensorboard_event\.pb\.h"]="dist tests"
  ["curl/"]="data tools"
  ["openssl/"]="data tools tests"
  ["CLI/"]="dist tools tests"
)

sources() { find "$1" -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0; }

# The includes of a folder, as FILE:LINE:PATH, of the kind "..." or <...>.
includes() {
  sources "$1" | xargs -0 -r grep -HnoE "^ *# *include *$2[^\">]+" | sed -E "s/:( *# *include *.)/:/" || true
}

check() {
  local root=$1 wrong=0 folder above place file line path
  for folder in "${!may[@]}"; do
    [[ -d $root/$folder ]] || continue
    while IFS=: read -r file line path; do
      case $path in
        tessera/version.h | tessera/build.h) continue ;;
        tessera/tessera.h) [[ $folder == tests || $folder == tools ]] && continue ;;
        torch_rows.inc) [[ $file == "$root"/tests/torch_functions/* ]] && continue ;; # generated
        torch_nn_rows.inc) [[ $file == "$root"/tests/torch_nn/* ]] && continue ;; # generated
        llama.h) [[ $file == "$root"/tests/first_drafts/* ]] && continue ;; # programs as a user has them
      esac
      if [[ " ${may[$folder]} " != *" ${path%%/*} "* || ! -e $root/$path ]]; then
        echo "$file:$line: includes \"$path\"; $folder may include, from the root: ${may[$folder]}"
        wrong=1
      fi
    done < <(includes "$root/$folder" '"')
    for place in "${!library[@]}"; do
      [[ " ${library[$place]} " == *" $folder "* ]] && continue
      while IFS=: read -r file line path; do
        echo "$file:$line: includes <$path>, which only these may: ${library[$place]}"
        wrong=1
      done < <(includes "$root/$folder" '<' | grep -E ":($place)" || true)
    done
  done
  for folder in "${!may_not[@]}"; do
    [[ -d $root/$folder ]] || continue
    for above in ${may_not[$folder]}; do
      while IFS=: read -r file line path; do
        echo "$file:$line: includes \"$path\"; $folder may not include: ${may_not[$folder]}"
        wrong=1
      done < <(includes "$root/$folder" '"' | grep -E ":$above/" || true)
    done
  done
  return $wrong
}

# A test of the check: a small project with three wrong includes and two right ones.
project=$(mktemp -d)
trap 'rm -rf "$project"' EXIT
mkdir -p "$project/tensor/cpu" "$project/tensor/ops" "$project/nn"
echo '#include "nn/module.h"' >"$project/tensor/shape.h"
printf '#include "tensor/shape.h"\n#include <json/json.h>\n' >"$project/nn/module.h"
echo '#include "tensor/cpu/loss.h"' >"$project/tensor/ops/loss.h"
echo '#include "tensor/ops/loss.h"' >"$project/tensor/cpu/loss.h"
if [[ $(check "$project" | wc -l) != 3 ]]; then
  echo "the check itself is broken: expected three wrong includes, found:"
  check "$project" || true
  exit 1
fi

check "$1" && echo "every folder includes only what it may"
