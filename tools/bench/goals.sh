#!/usr/bin/env bash
# Measures the whole table of goals on this machine beside PyTorch, and adds it to RESULTS.md under the processor's name.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../setup.sh
source "$here/../setup.sh"

usage() {
  cat <<TEXT
usage: tools/bench/goals.sh [options]

  --python FILE    a Python with PyTorch (default: one in build/peers, made by pip where it is missing)
  --results FILE   add the table to this file (default: tools/bench/RESULTS.md)
  --dry-run        print the table alone
  --no-build       measure the programs of build/release as they are
  --fast           leave out what takes longest: gpt-lite, validation loss, recomputation, full_shard and its peers, two
                   processes at width 768 and of the deep network
  --parts LIST     of one-process,two-processes,generation,rates (default: all)
  --pairs N        pairs of turns of every row (default: 15)
  --seconds S      of a turn (default: 1)
  --rows LIST      of one process (default: all; run_goals.py --help has their names)
  --models LIST    of two processes, of nano-cpu,width-768,wide,deep (default: all)
  --presets LIST   of generation (default: width-768,gpt2)

Where a part fails or a package is missing, the reason is printed, the part is marked in the table, the others go on, and
the exit status is 1. The table is written after each part. It takes the place of the processor's newest section where
that has the same heading (date, processor, threads, PyTorch) and the same command, else it becomes a new section before
all others.
TEXT
}

python="" results=$here/RESULTS.md dry=no build=yes fast=no parts=one-process,two-processes,generation,rates
pairs=15 seconds=1 rows="" models="" presets=width-768,gpt2
command=tools/bench/goals.sh # with the options that decide what is measured
while (($#)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --dry-run) dry=yes ;;
    --no-build) build=no ;;
    --fast) fast=yes command+=" $1" ;;
    --python | --results | --parts | --pairs | --seconds | --rows | --models | --presets)
      (($# > 1)) || fail "$1 needs a value"
      case $1 in --python | --results) ;; *) command+=" $1 $2" ;; esac
      printf -v "${1#--}" %s "$2"
      shift
      ;;
    *) usage >&2 && fail "unknown option $1" ;;
  esac
  shift
done
for part in ${parts//,/ }; do
  case $part in
    one-process | two-processes | generation | rates) ;;
    *) fail "--parts: '$part' is none of one-process, two-processes, generation, rates" ;;
  esac
done
[[ $pairs =~ ^[1-9][0-9]*$ ]] || fail "--pairs: expected a positive number, got '$pairs'"

if [[ $build == yes ]]; then
  install_missing_packages
  configure release
  report "building build/release"
  cmake --build "$root/build/release" --target gptlite bench_bench_gptlite bench_bench_products bench_bench_generate \
    bench_bench_data_parallel
  # It is left out where Google Benchmark is missing.
  cmake --build "$root/build/release" --target bench_bench_attention || report "bench_attention could not be built"
fi

has_torch() { "$1" -c 'import torch' 2>/dev/null; }
if [[ -z $python ]]; then
  python=$root/build/peers/bin/python
  if ! has_torch "$python"; then
    report "installing PyTorch into build/peers"
    { python3 -m venv "$root/build/peers" && "$python" -m pip install --quiet torch safetensors; } ||
      report "PyTorch could not be installed"
    [[ -x $python ]] || python=$(command -v python3) || fail "python3 is missing"
  fi
fi
table=$(mktemp) trained=$(mktemp -d)
trap 'rm -rf "$table" "$trained"' EXIT

# The peers that train read the text from the library's cache; a training run of one step puts it there.
text=yes
if [[ -z ${TESSERA_DATA:-} && ,$parts, == *-process* ]]; then
  "$root/build/release/bin/gptlite" train --preset tiny --steps 1 --out "$trained/run" >/dev/null || text=no
  export TESSERA_DATA=${XDG_CACHE_HOME:-$HOME/.cache}/tessera
fi

torch=yes
has_torch "$python" || torch=no

one_process() {
  if [[ -z $rows && $fast == yes ]]; then
    rows=nano-cpu/fp32,nano/fp32,width-768/fp32,nano/bf16,width-768/bf16,wide/fp32,nano-cpu/kernels
  fi
  "$python" "$here/run_goals.py" --python "$python" --pairs "$pairs" --seconds "$seconds" ${rows:+--rows "$rows"}
}

two_processes() {
  # run_data_parallel.py leaves out ZeRO where DeepSpeed is missing.
  local sides=(--ours "single,no_shard,full_shard" --peers "single,ddp,zero-0,fsdp2,zero-3")
  if [[ $fast == yes ]]; then
    models=${models:-nano-cpu,wide}
    sides=(--ours "single,no_shard" --peers "single,ddp")
  fi
  "$python" "$here/run_data_parallel.py" --python "$python" --rounds "$pairs" "${sides[@]}" ${models:+--models "$models"}
}

generation() {
  "$python" "$here/run_generate.py" --python "$python" --pairs "$pairs" --seconds "$seconds" --presets "$presets"
}

rates() {
  "$python" "$here/run_rates.py" --python "$python" --rounds "$((pairs < 5 ? pairs : 5))"
}

date=$(date +%F)  # one for all parts: a run may go on after midnight
failed=()
cat >"$table" <<TEXT
Ours and PyTorch in turn; medians and quartiles of the pairs, $pairs of each row. "Moved" counts the pairs during which
the machine's own rates changed by more than a tenth; [README.md](README.md) explains the other columns. Load average of
the machine at the start: $(cut -d' ' -f1 /proc/loadavg).
TEXT

# Runs a part, whose standard output is its tables, and adds it to the results: part NAME TITLE NEEDS_TORCH
# NEEDS_TEXT
part() {
  local name=$1 title=$2 needs_torch=$3 needs_text=$4 status=0
  [[ ,$parts, == *,$name,* ]] || return 0
  report "measuring $name"
  printf '\n### %s\n\n' "$title" | tee -a "$table"
  if [[ $needs_torch == yes && $torch == no ]]; then
    report "$name is left out: $python has no PyTorch" >&2
    printf 'Not measured: PyTorch is missing.\n' >>"$table"
    status=1
  elif [[ $needs_text == yes && $text == no ]]; then
    report "$name is left out: tiny Shakespeare could not be fetched" >&2
    printf 'Not measured: tiny Shakespeare is missing.\n' >>"$table"
    status=1
  elif ! "${name//-/_}" | tee -a "$table"; then
    report "$name is incomplete: see above" >&2
    printf '\nIncomplete: the part ended with an error.\n' >>"$table"
    status=1
  fi
  ((status == 0)) || failed+=("$name")
  [[ $dry == yes ]] ||
    "$python" "$here/results_section.py" --file "$results" --body "$table" --command "$command" --date "$date" \
      --python "$python"
}

report "the machine should be idle"
part one-process "Goals of one process" yes yes
part two-processes "Two processes of one thread each" yes yes
part generation "Generating text with a cache" yes no
part rates "Rates of products and attention" no no
((${#failed[@]} == 0)) || fail "incomplete: ${failed[*]}"
