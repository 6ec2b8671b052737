#!/usr/bin/env bash
# usage: hosts.sh CONFORMANCE FAULTS [GPTLITE]
# Two hosts on one machine: network namespaces on a bridge, each with an address, a host name, processes and a /dev/shm of
# its own. Four ranks, two on each, run CONFORMANCE over TCP and train with GPTLITE, with the losses of four threads; then
# FAULTS, and the link between the hosts is cut during its collectives: every rank must exit by itself. Also, two hosts
# of one name stay two, and ranks of one machine share its memory under different host names. The hosts are made and
# removed here. Exits with 77 and the reason where that is not possible.
set -euo pipefail

conformance=$1 faults=$2 gptlite=${3:-}
skip() {
  echo "skipped: $*"
  exit 77
}
[[ ${TESSERA_WITH_MPI:-1} == 1 ]] || skip "this build has no MPI"
[[ $EUID == 0 ]] || skip "network namespaces need root"
for tool in ip unshare mpirun; do
  command -v $tool >/dev/null || skip "no $tool here"
done
mpirun --version | grep -q "Open MPI" || skip "the mpirun here is not Open MPI's"

id=$$
bridge=tsr$id
network=10.213.$((id % 250))
hosts=(a b)
scratch=$(mktemp -d)
export TMPDIR=$scratch  # mpirun leaves folders of its daemons there
namespace() { echo "tessera-$id-$1"; }

# Ends the processes that this script started on the hosts and that still run.
end_all() {
  local host
  for host in "${hosts[@]}"; do
    ip netns pids "$(namespace "$host")" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
  done
}
# shellcheck disable=SC2317 # called by the trap
remove_hosts() {
  local host
  end_all
  for host in "${hosts[@]}"; do
    ip netns delete "$(namespace "$host")" 2>/dev/null || true
    ip link delete "$bridge$host" 2>/dev/null || true
  done
  ip link delete "$bridge" 2>/dev/null || true
  rm -rf "$scratch"
}
trap remove_hosts EXIT

ip link add "$bridge" type bridge 2>/dev/null || skip "this machine gives no network bridge"
ip address add "$network.1/24" dev "$bridge"
ip link set "$bridge" up
last=2
for host in "${hosts[@]}"; do
  name=$(namespace "$host")
  ip netns add "$name" 2>/dev/null || skip "this machine gives no network namespaces"
  ip link add "$bridge$host" type veth peer name eth0 netns "$name"
  ip link set "$bridge$host" master "$bridge" up
  ip -n "$name" link set lo up
  ip -n "$name" address add "$network.$last/24" dev eth0
  ip -n "$name" link set eth0 up
  last=$((last + 1))
done

# The command with which mpirun starts its daemons, instead of ssh: HOST COMMAND...
cat >"$scratch/agent" <<END
#!/usr/bin/env bash
host=\$1
shift
exec ip netns exec tessera-$id-\$host unshare -u -m -p --fork --mount-proc sh -c \\
  'hostname "tessera-$id-\$1" && mount -t tmpfs -o size=1g tmpfs /dev/shm && shift && exec sh -c "\$*"' sh "\$host" "\$@"
END
chmod +x "$scratch/agent"
"$scratch/agent" a true 2>/dev/null || skip "no host name or /dev/shm of its own can be given to a process here"

on_both_hosts=(timeout -k 2 480 mpirun --allow-run-as-root --bind-to none -n 4 -host "a:2,b:2"
  --mca plm_rsh_agent "$scratch/agent" --mca btl_tcp_if_include "$network.0/24"
  --mca oob_tcp_if_include "$network.0/24" -x ASAN_OPTIONS=detect_leaks=0) # of MPI's plugins, as in mpirun.sh

echo "== four ranks on two hosts"
# shellcheck disable=SC2016 # expanded on the hosts
if ! "${on_both_hosts[@]}" sh -c 'echo "rank $OMPI_COMM_WORLD_RANK on $(hostname)"' >"$scratch/placed" 2>&1; then
  cat "$scratch/placed"
  # Some mpiruns are built or configured without a way to start processes on other hosts.
  ! grep -q 'are already filled' "$scratch/placed" || skip "this mpirun starts no processes on other hosts"
  exit 1
fi
sort "$scratch/placed"
[[ $(sed -n 's/^rank [0-9]* on //p' "$scratch/placed" | sort -u | wc -l) == 2 ]] || {
  echo "the ranks are not on two hosts"
  exit 1
}
# One device is compared with on one host (ranks/4); these compare with each other.
"${on_both_hosts[@]}" "$conformance" --test-case-exclude='*follows one device*'

# expect_places RANKS TRANSPORT COMMAND...: the line of each rank about its place must end with TRANSPORT.
expect_places() {
  local ranks=$1 transport=$2
  shift 2
  "$@" 2>&1 | tee "$scratch/output" | grep "^rank" | sort | tee "$scratch/places"
  (($(grep -c "here; $transport\$" "$scratch/places") == ranks)) || {
    echo "expected of all $ranks ranks: $transport"
    exit 1
  }
}
echo "== two hosts of one name, and one machine with a name for each rank"
# place NAME PROGRAM: PROGRAM as a rank on a host of that name.
# shellcheck disable=SC2016 # expanded by each rank
place=(unshare -u sh -c 'hostname "$(eval echo "$0")" && exec "$1" place 0')
expect_places 4 "shared memory in a machine, remote transport (MPI) between machines" \
  "${on_both_hosts[@]}" "${place[@]}" tessera-name "$faults"
# shellcheck disable=SC2016 # expanded by each rank
expect_places 3 "shared memory" \
  "$(dirname "$0")/mpirun.sh" 3 "${place[@]}" 'tessera-name-$OMPI_COMM_WORLD_RANK' "$faults"

# losses_of NAME COMMAND...: prints the losses of a short training, step by step.
losses_of() {
  local name=$1
  shift
  "$@" --preset nano-cpu --n-layer 2 --dataset builtin --steps 10 --eval-interval 0 --quiet \
    --metrics "$scratch/$name.jsonl" --out "$scratch/$name" >&2
  grep -o '"loss":[0-9.]*' "$scratch/$name.jsonl"
}
if [[ -n $gptlite ]]; then
  for strategy in full_shard "hybrid_shard --shard-group-size 2"; do
    echo "== $strategy on two hosts, and as threads"
    read -ra options <<<"--strategy $strategy"
    losses_of "hosts-${options[1]}" "${on_both_hosts[@]}" "$gptlite" train "${options[@]}" >"$scratch/on_hosts"
    losses_of "threads-${options[1]}" "$gptlite" train --virtual-ranks 4 "${options[@]}" >"$scratch/on_threads"
    diff "$scratch/on_hosts" "$scratch/on_threads" || {
      echo "the losses differ"
      exit 1
    }
    tail -n 1 "$scratch/on_hosts"
  done
fi

echo "== the link is cut"
# Ranks behind the cut cannot reach mpirun: each writes its output, and its status, into files of its own.
cat >"$scratch/rank" <<END
#!/usr/bin/env bash
status=0
"$faults" none-ever 0 2>"$scratch/output.\$OMPI_COMM_WORLD_RANK" || status=\$?
echo \$status >"$scratch/status.\$OMPI_COMM_WORLD_RANK"
exit \$status
END
chmod +x "$scratch/rank"
"${on_both_hosts[@]}" "$scratch/rank" >"$scratch/mpirun" 2>&1 &
mpirun=$!
sleep 4
ip link set "${bridge}b" down
# Whether a rank still runs.
ranks_run() {
  local host pid
  for host in "${hosts[@]}"; do
    for pid in $(ip netns pids "$(namespace "$host")"); do
      [[ $(readlink "/proc/$pid/exe" 2>/dev/null) != "$(readlink -f "$faults")" ]] || return 0
    done
  done
  return 1
}
second=0
while ranks_run && ((second < 40)); do
  sleep 1
  second=$((second + 1))
done
wrong=0
ranks_run && wrong=1
end_all
kill $mpirun 2>/dev/null || true # its daemon behind the cut never answers
{ wait $mpirun || true; } 2>/dev/null

# mpirun still reaches host a: it may have ended one of the two ranks there after the other had exited.
exited=0
for rank in 0 1 2 3; do
  status=$(cat "$scratch/status.$rank" 2>/dev/null || echo unknown)
  echo "rank $rank, status $status: $(cat "$scratch/output.$rank" 2>/dev/null || true)"
  if [[ $status == 5 ]] && grep -q "is lost: no heartbeat" "$scratch/output.$rank"; then
    exited=$((exited + 1))
  elif ((rank >= 2)) || [[ $status != unknown ]]; then
    wrong=1
  fi
done
((exited >= 3)) || wrong=1
((wrong == 0)) && echo "every rank exited by itself within $second s of the cut"
exit $wrong
