#!/usr/bin/env bash
# usage: trained.sh PROGRAM
# A user's program (tests/consumer/trained.cpp): killed at five moments and resumed it ends with the bits of a run that was
# not killed, two ranks under mpirun end where one does, and metrics, event files, a trace and --explain are options alone.
set -euo pipefail
program=$1
export OMP_NUM_THREADS=1 TESSERA_NUM_THREADS=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
steps=1500

run() { # FOLDER [more flags]
  local out=$1
  shift
  "$program" --out "$out" --max-steps $steps --checkpoint-interval 20 "$@"
}

whole=$(run "$scratch/whole")
echo "one run: $whole"

kills=0 result=""
for delay in 0.15 0.2 0.1 0.25 0.12 600; do
  resume=()
  [[ ! -e $scratch/killed/latest ]] || resume=(--resume "$scratch/killed")
  "$program" --out "$scratch/killed" --max-steps $steps --checkpoint-interval 20 "${resume[@]}" >"$scratch/output" &
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
    --out "$scratch/two" --max-steps $steps --checkpoint-interval 20)
  echo "two ranks: $two"
  awk -v a="$whole" -v b="$two" 'BEGIN { d = a - b; exit !(d < 0.01 && d > -0.01) }' || {
    echo "expected two ranks to end where one does" && exit 1
  }
  plans=$(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none -n 2 "$program" --explain)
  [[ $(grep -c 'world_size  *2$' <<<"$plans") == 1 ]] || { echo "expected one plan of two ranks, got: $plans" && exit 1; }
else
  echo "left out: two ranks, since there is no mpirun"
fi

events=()
[[ ${TESSERA_WITH_TENSORBOARD:-1} != 1 ]] || events=(--tensorboard "$scratch/events")
"$program" --max-steps 40 --metrics "$scratch/run.jsonl" "${events[@]}" --trace "$scratch/trace.json" \
  --trace-steps 5:6 --log-every 10 --steps-per-print 20 >"$scratch/output"
for file in run.jsonl trace.json output; do
  [[ -s $scratch/$file ]] || { echo "expected $file" && exit 1; }
done
grep -q '"loss_step"' "$scratch/run.jsonl" || { echo "expected the loss in run.jsonl" && exit 1; }
grep -q 'step=40, AvgSamplesPerSec' "$scratch/output" || { echo "expected lines of throughput" && exit 1; }
((${#events[@]} == 0)) || compgen -G "$scratch/events/events.out.tfevents.*" >/dev/null || { echo "expected event files" && exit 1; }
"$program" --seed 7 --explain >"$scratch/explained"
grep -q 'flag --seed' "$scratch/explained" || { echo "expected the options with their origins" && exit 1; }
grep -q 'bytes at the peak of a training step' "$scratch/explained" || { echo "expected the plan of a step" && exit 1; }
echo "metrics, event files, a trace and --explain: written"
