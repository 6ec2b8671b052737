#!/usr/bin/env bash
# usage: faults.sh PROGRAM
# Three ranks, of which rank 1 is killed, stopped, blocked, fails, leaves or calls something else: every rank has to end by
# itself within the deadlines that PROGRAM sets (a few seconds), with a status that is not 0 and a message that names
# rank 1. Exits with 77, saying why, where no ranks can be started.
set -euo pipefail

program=$1
here=$(cd "$(dirname "$0")" && pwd)
said=$(mktemp)
trap 'rm -f "$said"' EXIT
wrong=0

# run FAULT [OPTION OF MPIRUN...]: what the ranks said is in $said, the exit status in $status, the time in $took.
run() {
  local fault=$1 begin=$SECONDS
  shift
  status=0
  MPIRUN_OPTIONS="$*" timeout -k 5 60 "$here/mpirun.sh" 3 "$program" "$fault" 1 >"$said" 2>&1 || status=$?
  if ((status == 77)); then
    cat "$said"
    exit 77
  fi
  took=$((SECONDS - begin))
}

complain() {
  echo "wrong: $*; status $status after $took s; what was said:"
  sed 's/^/  | /' "$said"
  wrong=1
}

# says WORDS: one of the ranks has to have said so.
says() { grep -qF -- "$1" "$said" || complain "nobody says '$1'"; }
# ends STATUS...: the exit status has to be one of these, and in time.
ends() {
  [[ " $* " == *" $status "* ]] || complain "expected the exit status $*"
  ((took <= 20)) || complain "it took too long"
}

run none
ends 0

# By default mpirun ends all ranks when one is killed, and names it. Where it is told not to, the others have to see it.
for fault in killed killed-inside killed-inside; do
  run $fault
  ends 137
  says "process rank 1 "
  run $fault --enable-recovery
  ((took <= 20)) || complain "it took too long"
  for rank in 0 2; do says "rank $rank ends: rank 1 on host $(hostname) is lost: its process has ended"; done
done

for fault in stopped stopped-inside; do
  run $fault
  ends 5
  says "rank 1 on host $(hostname) is lost: no sign of life"
done

run blocked
ends 5
says "rank 1 on host $(hostname) is lost: it is alive, but has begun no call"

run exception
ends 1 5 # that of the rank, or of one that heard of it, whichever is gone first
says "the forward of rank 1 failed" # its own words, or those of one that heard them

for call in branch:all_gather size:400004 dtype:i32; do
  run "${call%:*}"
  ends 5
  says "rank 1 calls"
  says "${call#*:}"
done

# A rank may work on its own between two launches, and after the last, for longer than a heartbeat is waited for.
for fault in works-between works-after; do
  run $fault
  ends 0
done
# Groups may be kept until after a launch.
run keeps-groups
ends 0
run keeps-groups -x TESSERA_TRANSPORT=messages
ends 0
# What has gone between two launches is noticed when the next one begins, not after its deadline for heartbeats (40 s).
run killed-between --enable-recovery
((took <= 20)) || complain "it took too long"
for rank in 0 2; do says "rank $rank ends: rank 1 is lost: its process has ended"; done
run leaves-between
ends 5
says "rank 1 is lost: its program has ended without this launch"

((wrong == 0)) && echo "every fault ended all ranks in time, with its rank named"
exit $wrong
