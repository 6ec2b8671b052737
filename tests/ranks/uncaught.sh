#!/usr/bin/env bash
# usage: uncaught.sh PROGRAM processes|mpirun
# An exception that leaves the main function of PROGRAM is one line on stderr and an exit status, in one process, with
# ranks as threads, and under mpirun in one line of all ranks. Exits with 77 and the reason where no ranks can be started.
set -euo pipefail

program=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" # a core file would be here
ulimit -c unlimited 2>/dev/null || true
wrong=0

# compare NAME STATUS TEXT: with $status and the files out and err; each # in TEXT stands for one digit.
compare() {
  local text
  text=$(cat out err)
  # shellcheck disable=SC2053 # a pattern
  if [[ $status != $2 || $text != ${3//\#/[0-9]} ]]; then
    printf '%s: expected status %s and:\n%s\ngot status %s and:\n%s\n' "$1" "$2" "$3" "$status" "$text"
    wrong=1
  fi
  if compgen -G "core*" >/dev/null; then
    echo "$1: left a core file"
    wrong=1
  fi
}

# expect CASE STATUS TEXT
expect() {
  status=0
  { timeout 60 "$program" "$1" >out 2>err; } 2>/dev/null || status=$? # without "Aborted" of this shell
  compare "$@"
}

# expect_ranks N CASE STATUS TEXT: without the lines in which mpirun says that it ends the job.
expect_ranks() {
  local ranks=$1
  shift
  status=0
  MPIRUN_OPTIONS="-q" timeout -k 5 60 "$here/mpirun.sh" "$ranks" "$program" "$1" >out 2>err || status=$?
  if ((status == 77)); then
    cat out
    exit 77
  fi
  compare "$@"
}

shapes="add: shapes (2, 3) and (4,) do not broadcast: dimension -1 is 3 and 4"
empty="corpus.txt: expected text, got an empty file"
nested="table.csv: 2 rows are wrong: row 3; row 7; caused by: std::invalid_argument: row 3; caused by: std::out_of_range: no entry 7"

in_one_process() {
  expect error 1 "error: $shapes"
  expect config 2 "error: lr: expected a positive number, got -1"
  expect own 1 "error: the program's own error"
  expect runtime 1 "error: plain"
  expect standard 1 "error: std::out_of_range: map::at"
  expect memory 1 "error: std::bad_alloc"
  expect nested 3 "error: $nested"
  expect text 1 "error: a thrown text"
  expect string 1 "error: a thrown string"
  expect number 1 "error: an exception of type int"
  expect thread 1 "error: from a thread"
  expect threads 1 "error: from one of two threads"
  expect noexcept 1 "error: out of a function that is noexcept"
  expect printed 4 "step 1error: loss: expected a finite value, got nan at step 1"
  expect handler 9 "the program's own handler"
  expect caught 0 "caught: $nested; status 3"
  expect one-of-4-threads 3 "error: rank 3 of 4: $empty"
  expect all-of-4-threads 1 "error: rank # of 4: $shapes"
  expect one-thread 3 "error: $empty"
  expect after-threads 3 "error: out/last: expected a folder"
  # What C++ does without the library: SIGABRT.
  ulimit -c 0
  expect unjoined 134 "terminate called without an active exception*"
  export TESSERA_UNCAUGHT=abort
  expect error 134 "terminate called after throwing an instance of 'tessera::ShapeError'
  what():  $shapes*"
}

under_mpirun() {
  local n
  for n in 2 4; do
    expect_ranks $n one-rank 3 "error: rank $((n - 1)) of $n: $empty"
    expect_ranks $n all-ranks "[15]" "error: rank # of $n: $shapes"
    expect_ranks $n before-launch 2 "error: rank # of $n: --steps: expected a number, got 'ten'"
    expect_ranks $n after-launch 3 "error: rank # of $n: out/last: expected a folder"
    expect_ranks $n after-launch-on-one 1 "error: rank 1 of $n: after the launch"
    expect_ranks $n other-call 5 "error: rank # of $n: *rank 1 calls all_reduce*"
  done
  expect_ranks 1 one-rank 3 "error: $empty"
}

case $2 in
  processes) in_one_process ;;
  mpirun) under_mpirun ;;
esac
((wrong == 0)) && echo "every exception is one line"
exit $wrong
