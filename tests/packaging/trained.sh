#!/usr/bin/env bash
# usage: trained.sh PROGRAM
# A user's program (tests/consumer/trained.cpp): killed at five random moments and resumed it ends with the bits of a run
# that was not killed, two ranks under mpirun have the losses of one, and metrics, event files, a trace and --explain are
# options alone.
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

began=${EPOCHREALTIME/[.,]/}
whole=$(run "$scratch/whole" --metrics "$scratch/whole.jsonl" --log-every 100)
length=$((${EPOCHREALTIME/[.,]/} - began)) # in microseconds
echo "one run: $whole"

# Each kill is at a random moment after a new checkpoint, at most a fifteenth of the run later. A run that ends before
# its kill, on a machine that was slower before, is resumed at its end.
kills=0
newest() { cat "$scratch/killed/latest" 2>/dev/null || true; }
for _ in 1 2 3 4 5; do
  resume=()
  before=$(newest)
  [[ -z $before ]] || resume=(--resume "$scratch/killed")
  "$program" --out "$scratch/killed" --max-steps $steps --checkpoint-interval 20 "${resume[@]}" >"$scratch/output" &
  pid=$!
  while kill -0 $pid 2>/dev/null && [[ $(newest) == "$before" ]]; do sleep 0.01; done
  sleep "$(printf '0.%06d' $((length * (RANDOM % 100) / 1500 % 1000000)))"
  kill -KILL $pid 2>/dev/null && kills=$((kills + 1))
  wait $pid 2>/dev/null || true
done
((kills > 0)) || { echo "expected a kill before the end of the run of $length microseconds" && exit 1; }
result=$(run "$scratch/killed" --resume "$scratch/killed")
echo "killed $kills times: $result"
[[ $result == "$whole" ]] || { echo "expected the same bits" && exit 1; }

losses() { grep -o '"loss_step":[-+0-9.e]*' "$1" | cut -d: -f2; }
# Leaks in MPI's plugins cannot be suppressed by name, as in tests/ranks/mpirun.sh; the runs above look for leaks.
export ASAN_OPTIONS=detect_leaks=0
if command -v mpirun >/dev/null && [[ ${TESSERA_WITH_MPI:-1} == 1 ]]; then
  two=$(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none -n 2 "$program" \
    --out "$scratch/two" --max-steps $steps --checkpoint-interval 20 --metrics "$scratch/two.jsonl" --log-every 100)
  echo "two ranks: $two"
  paste <(losses "$scratch/whole.jsonl") <(losses "$scratch/two.jsonl") |
    awk -v want=$((steps / 100)) '{ d = $1 - $2; wrong += !(d < 1e-5 && d > -1e-5) } END { exit !(NR == want && !wrong) }' || {
    echo "expected the losses of one rank, got:" && paste <(losses "$scratch/whole.jsonl") <(losses "$scratch/two.jsonl")
    exit 1
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
