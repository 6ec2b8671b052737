#!/usr/bin/env bash
# usage: faults.sh PROGRAM
# Three ranks, of which rank 1 is killed, stopped, blocked, fails, leaves or makes another call: every rank must end by
# itself within the deadlines that PROGRAM sets (a few seconds), with a status that is not 0 and a message that names
# rank 1. Exits with 77 and the reason where no ranks can be started.
set -euo pipefail

program=$1
here=$(cd "$(dirname "$0")" && pwd)
output=$(mktemp)
trap 'rm -f "$output"' EXIT
wrong=0

# run FAULT [OPTION OF MPIRUN...]: sets $status and $took (seconds); the ranks' output is in the file $output.
run() {
  local fault=$1 begin=$SECONDS
  shift
  status=0
  MPIRUN_OPTIONS="$*" timeout -k 5 60 "$here/mpirun.sh" 3 "$program" "$fault" 1 >"$output" 2>&1 || status=$?
  if ((status == 77)); then
    cat "$output"
    exit 77
  fi
  took=$((SECONDS - begin))
}

report_error() {
  echo "wrong: $*; status $status after $took s; the output:"
  sed 's/^/  | /' "$output"
  wrong=1
}

# expect_text TEXT: the output of the ranks has to contain it.
expect_text() { grep -qF -- "$1" "$output" || report_error "no rank prints '$1'"; }
# expect_status STATUS...: the exit status has to be one of these, within 20 s.
expect_status() {
  [[ " $* " == *" $status "* ]] || report_error "expected the exit status $*"
  ((took <= 20)) || report_error "expected it to end within 20 s"
}

run none
expect_status 0

# By default mpirun ends all ranks when one is killed, and names it. With --enable-recovery the others must detect it.
for fault in killed killed-inside killed-inside; do
  run $fault
  expect_status 137
  expect_text "process rank 1 "
  run $fault --enable-recovery
  ((took <= 20)) || report_error "expected it to end within 20 s"
  for rank in 0 2; do expect_text "rank $rank ends: rank 1 on host $(hostname) is lost: its process has ended"; done
done

for fault in stopped stopped-inside; do
  run $fault
  expect_status 5
  expect_text "rank 1 on host $(hostname) is lost: no heartbeat"
done

run blocked
expect_status 5
expect_text "rank 1 on host $(hostname) is lost: its process runs, but has begun no call"

run exception
expect_status 1 5 # that of the rank, or of one that received its abort message, whichever ends first
expect_text "the forward of rank 1 failed" # by that rank, or by one that received its abort message

# In a pipeline the error also has the action in which the stage was, not only the one that the others wait for.
run stage-killed --enable-recovery
((took <= 20)) || report_error "expected it to end within 20 s"
for rank in 0 2; do expect_text "rank $rank ends: rank 1 on host $(hostname) is lost: its process has ended"; done
expect_text "; it was in 1F2 (stage 1, micro-batch 2)"
run stage-blocked
expect_status 5
expect_text "rank 1 on host $(hostname) is lost: its process runs, but has begun no call"
expect_text "; it was in 1F2 (stage 1, micro-batch 2)"
run stage-blocked -x TESSERA_TRANSPORT=remote
expect_status 5
expect_text "; it was in 1F2 (stage 1, micro-batch 2)"

for call in branch:all_gather size:400004 dtype:i32; do
  run "${call%:*}"
  expect_status 5
  expect_text "rank 1 calls"
  expect_text "${call#*:}"
done

# A rank may work on its own between two launches, and after the last, for longer than a heartbeat is waited for.
for fault in works-between works-after; do
  run $fault
  expect_status 0
done
# Groups may be kept until after a launch.
run keeps-groups
expect_status 0
run keeps-groups -x TESSERA_TRANSPORT=remote
expect_status 0
# A rank that ended between two launches is lost when the next one begins, not after its deadline for heartbeats (40 s).
run killed-between --enable-recovery
((took <= 20)) || report_error "expected it to end within 20 s"
for rank in 0 2; do expect_text "rank $rank ends: rank 1 is lost: its process has ended"; done
run leaves-between
expect_status 5
expect_text "rank 1 is lost: its program has ended without this launch"

((wrong == 0)) && echo "every fault ended all ranks in time, with its rank named"
exit $wrong
