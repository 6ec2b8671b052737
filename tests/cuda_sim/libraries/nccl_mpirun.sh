#!/usr/bin/env bash
# usage: nccl_mpirun.sh MPIRUN PROGRAM: cases of nccl_processes with the ranks of mpirun.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for ranks in 2 4; do
  for name in collectives messages splits disagreement; do
    "$1" --oversubscribe --allow-run-as-root -n "$ranks" "$2" "$name" "$ranks" "$folder/$name.$ranks"
  done
done
