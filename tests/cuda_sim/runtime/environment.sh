#!/usr/bin/env bash
# usage: environment.sh PROGRAM
# Settings of the simulated card: what a program sees, its output and its exit code.
set -uo pipefail
program=$1
failed=0
unset TESSERA_CUDA_SIM_ORDER TESSERA_CUDA_SIM_EXIT_CODE

# expect CODE PATTERN ACTION [SETTING...]: the exit code, and a line of stdout and stderr together.
expect() {
  local code=$1 pattern=$2 action=$3 output
  shift 3
  output=$(env "$@" "$program" "$action" 2>&1)
  local got=$?
  if [[ $got != "$code" ]] || ! grep -q -- "$pattern" <<<"$output"; then
    printf 'with %s: expected exit code %s and "%s", got %s and:\n%s\n' "$*" "$code" "$pattern" "$got" "$output"
    failed=1
  fi
}

expect 0 "cudaSuccess, 1 devices, sm_90, 4294967296 bytes" clean
expect 0 "sm_90, 1048576 bytes" clean TESSERA_CUDA_SIM_MEMORY=1M
expect 0 "two devices: 0" two TESSERA_CUDA_SIM_DEVICES=2
expect 2 "cudaErrorNoDevice, 0 devices" clean TESSERA_CUDA_SIM_DEVICES=0
# A driver before the runtime's major version; a minor version may be any.
expect 2 "cudaErrorInsufficientDriver, 0 devices" clean TESSERA_CUDA_SIM_DRIVER=12.4
expect 0 "driver 12040: cudaMalloc cudaErrorInsufficientDriver, launch cudaErrorInsufficientDriver" driver \
  TESSERA_CUDA_SIM_DRIVER=12.4
expect 0 "driver 13[0-9]*: cudaMalloc cudaSuccess, launch cudaSuccess" driver
expect 0 "driver 13990: cudaMalloc cudaSuccess, launch cudaSuccess" driver TESSERA_CUDA_SIM_DRIVER=13.99
# PTX for sm_90 is too late for an sm_80 card.
expect 2 "launch: cudaErrorNoKernelImageForDevice" clean TESSERA_CUDA_SIM_ARCH=80
# A bad setting fails like a card that cannot be initialised, and says why.
expect 2 "TESSERA_CUDA_SIM_ARCH is '70'; expected one of 80, 86, 89, 90" clean TESSERA_CUDA_SIM_ARCH=70
expect 2 "cudaErrorInitializationError" clean TESSERA_CUDA_SIM_ORDER=never
expect 2 "TESSERA_CUDA_SIM_ODER is no setting" clean TESSERA_CUDA_SIM_ODER=lazy
expect 0 "leak: 1 allocations with 128 bytes were not freed on device 0" leak
expect 7 "1 findings" leak TESSERA_CUDA_SIM_EXIT_CODE=7
expect 0 "cudaSuccess" leak TESSERA_CUDA_SIM_EXIT_CODE=7 TESSERA_CUDA_SIM_CHECKS=all,-leak
# Work that is left at the exit still runs and is checked; the report has a line or two for each finding.
for order in eager lazy random; do
  for pattern in "stream-race: write of 4 bytes" "were not freed on device 0" "were not freed on device 1" \
    "4 streams were not destroyed" "findings$"; do
    expect 7 "$pattern" exit TESSERA_CUDA_SIM_DEVICES=2 TESSERA_CUDA_SIM_EXIT_CODE=7 "TESSERA_CUDA_SIM_ORDER=$order"
  done
  lines=$(env TESSERA_CUDA_SIM_DEVICES=2 "TESSERA_CUDA_SIM_ORDER=$order" "$program" exit 2>&1 | wc -l)
  if ((lines > 8)); then
    printf 'the report at the exit has %s lines\n' "$lines"
    failed=1
  fi
done
expect 0 "store" clean TESSERA_CUDA_SIM_COUNTERS=1
counts=$(mktemp -d)
expect 0 "cudaSuccess" clean TESSERA_CUDA_SIM_COUNTERS="$counts/counts.jsonl"
if ! grep -q '^{"device": 0, "kernel": ".*store.*", "launches": 1, .*"store_bytes": 128, .*}$' "$counts/counts.jsonl"; then
  printf 'expected the counts of store in a file, got:\n%s\n' "$(cat "$counts/counts.jsonl")"
  failed=1
fi
expect 0 "counts could not be written to $counts/no/counts.jsonl" clean TESSERA_CUDA_SIM_COUNTERS="$counts/no/counts.jsonl"
rm -r "$counts"
expect 0 "TESSERA_CUDA_SIM_SEED = a number: of every random order (1)" clean TESSERA_CUDA_SIM_HELP=1
exit $failed
