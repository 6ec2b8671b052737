#!/usr/bin/env bash
# usage: mpirun.sh RANKS PROGRAM [ARGUMENT...]
# Runs PROGRAM on RANKS processes of this machine; MPIRUN_OPTIONS may hold more options of mpirun. Exits with 77 and the
# reason where that is not possible.
set -euo pipefail

ranks=$1
shift
skip() {
  echo "skipped: $*"
  exit 77
}
[[ ${TESSERA_WITH_MPI:-1} == 1 ]] || skip "this build has no MPI"
command -v mpirun >/dev/null || skip "no mpirun here (package openmpi-bin)"
mpirun --version | grep -q "Open MPI" || skip "the mpirun here is not Open MPI's"

root=()
[[ $EUID != 0 ]] || root=(--allow-run-as-root)
read -ra more <<<"${MPIRUN_OPTIONS:-}"
# Leaks in MPI's plugins cannot be suppressed by name: the plugins are unloaded before the leak check. Tests with ranks
# as threads find the leaks of this project.
export ASAN_OPTIONS=detect_leaks=0
# Ranks sleep when they wait, so there may be more of them than cores.
exec mpirun "${root[@]}" "${more[@]}" --oversubscribe --bind-to none -n "$ranks" "$@"
