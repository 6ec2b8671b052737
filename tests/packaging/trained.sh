#!/usr/bin/env bash
# usage: trained.sh PROGRAM
# A user's program (tests/consumer/trained.cpp): killed at five moments and resumed it ends with the bits of a run that was
# not killed, and two ranks under mpirun end where one does.
set -euo pipefail
program=$1
export OMP_NUM_THREADS=1 TESSERA_NUM_THREADS=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
steps=1500

whole=$("$program" "$scratch/whole" $steps)
echo "one run: $whole"

kills=0 result=""
for delay in 0.15 0.2 0.1 0.25 0.12 600; do
  resume=()
  [[ ! -e $scratch/killed/latest ]] || resume=("$scratch/killed")
  "$program" "$scratch/killed" $steps "${resume[@]}" >"$scratch/output" &
  pid=$!
  for ((waited = 0; waited < ${delay%.*} * 100 + 10#${delay#*.}; waited += 5)); do
    kill -0 $pid 2>/dev/null || break
    sleep 0.05
  done
  if kill -KILL $pid 2>/dev/null; then kills=$((kills + 1)); fi
  if wait $pid 2>/dev/null; then
    result=$(cat "$scratch/output")
    break
  fi
done
echo "killed $kills times: $result"
[[ $result == "$whole" ]] || { echo "expected the same bits" && exit 1; }
((kills > 0)) || { echo "expected a kill before the end" && exit 1; }

if command -v mpirun >/dev/null && [[ ${TESSERA_WITH_MPI:-1} == 1 ]]; then
  two=$(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none -n 2 "$program" \
    "$scratch/two" $steps)
  echo "two ranks: $two"
  awk -v a="$whole" -v b="$two" 'BEGIN { d = a - b; exit !(d < 0.01 && d > -0.01) }' || {
    echo "expected two ranks to end where one does" && exit 1
  }
else
  echo "left out: two ranks, since there is no mpirun"
fi
