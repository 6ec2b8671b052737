#!/usr/bin/env bash
# usage: run_in_all_orders.sh PROGRAM: in every order of operations and of blocks it must succeed and print the same.
set -euo pipefail
first=
for order in eager lazy random; do
  for blocks in ascending descending random; do
    if ! text=$(TESSERA_CUDA_SIM_ORDER=$order TESSERA_CUDA_SIM_BLOCKS=$blocks "$1"); then
      echo "$text"
      echo "failed with operations $order, blocks $blocks"
      exit 1
    fi
    first=${first:-$text}
    if [[ $text != "$first" ]]; then
      diff <(echo "$first") <(echo "$text") || true
      echo "other bits with operations $order, blocks $blocks"
      exit 1
    fi
  done
done
echo "$first"
