#!/usr/bin/env bash
# Builds Tessera and runs every test that this machine can run; installs missing packages first.
set -euo pipefail
# shellcheck source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

usage() {
  cat <<TEXT
usage: tools/test.sh [--preset NAME] [--fast] [ctest options]
       tools/test.sh --all

  --preset NAME   release (default), debug, asan, tsan, clang-14, clang-16 or cuda. release has the CUDA sources too where
                  nvcc is found, and runs them on the simulated card; cuda installs CUDA's toolkit from PyPI where not
  --fast          only the tests of ${fast_folders[*]}, and only what they need is built
  --all           everything, one after another: lint.sh, the presets release, asan, tsan, clang-14 and clang-16, the
                  release tests under each instruction set below this processor's own, and the device tests in every
                  order of the simulated card; a table at the end. Hours.
                  Parts that passed on this commit are not run again, so a run that was cut off goes on where it
                  stopped; rm -r build/passed starts over.
  ctest options   for example -L tensor (one folder's tests) or -R attention (by name)
TEXT
}

# Folders whose tests take seconds; continuous integration runs them under the address sanitizer.
fast_folders=(tensor ops autograd nn optim data models)
presets=(release debug asan tsan clang-14 clang-16 cuda)

preset=release fast=no all=no
cuda_options=()
ctest_options=()
while (($#)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --all) all=yes ;;
    --fast) fast=yes ;;
    --preset)
      (($# > 1)) || fail "--preset needs a name: ${presets[*]}"
      preset=$2 && shift ;;
    --preset=*) preset=${1#*=} ;;
    *) ctest_options+=("$1") ;;
  esac
  shift
done
[[ " ${presets[*]} " == *" $preset "* ]] || fail "unknown preset '$preset': ${presets[*]}"

# Prints what the tests below do not run on this machine, and why.
print_left_out() {
  not_run() { printf '==   %s\n' "$*"; }
  report "not run here:"
  if ((${#cuda_options[@]} == 0)); then
    case $preset in
      release) not_run "device code on the simulated card: no nvcc here; --preset cuda installs it from PyPI" ;;
      *) not_run "device code on the simulated card: the presets release and cuda have it" ;;
    esac
  else
    not_run "device code on a card (compiled and simulated here): TESSERA_TEST_DEVICE=cuda build/$preset/bin/tests_cuda"
  fi
  grep -q 'oneDNN *found' <<<"$found_table" || not_run "matrix products on oneDNN: this build has Eigen alone"
  grep -qw amx_bf16 /proc/cpuinfo 2>/dev/null || not_run "products of bf16 on tiles (amx): this processor has none"
  grep -qw avx512_bf16 /proc/cpuinfo 2>/dev/null || not_run "products of bf16 on vectors (avx512_bf16): this processor has none"
  grep -qw avx512f /proc/cpuinfo 2>/dev/null || not_run "AVX-512 kernels: this processor has none"
  grep -qw avx2 /proc/cpuinfo 2>/dev/null || not_run "AVX2 kernels: this processor has none"
  case $preset in
    asan | tsan) ;;
    *) not_run "sanitizers: --preset asan, --preset tsan; everything: --all" ;;
  esac
}

# Sets cuda_options: CMake's options for the CUDA sources in this preset; none where it is without them. The simulated card
# reads PTX, so no machine code is made.
set_cuda_options() {
  local nvcc
  cuda_options=()
  case $preset in
    release) nvcc=$(find_nvcc) || return 0 ;;
    cuda)
      find_nvcc >/dev/null || install_cuda_toolkit
      nvcc=$(find_nvcc) ;;
    *) return 0 ;;
  esac
  cuda_options=(-DTESSERA_CUDA=ON "-DCMAKE_CUDA_COMPILER=$nvcc" "-DTESSERA_NVCC=$nvcc" -DCMAKE_CUDA_ARCHITECTURES=90-virtual)
}

# build_and_test PRESET [ctest options]: configures, builds and runs the tests of PRESET.
build_and_test() {
  preset=$1
  shift
  local targets=() only=()
  if [[ $fast == yes ]]; then
    targets=(--target "${fast_folders[@]/#/tests_}")
    only=(-L "^($(IFS='|' && echo "${fast_folders[*]}"))\$" -E isa_symbols)
  fi
  set_cuda_options
  configure "$preset" "${cuda_options[@]}"
  report "building build/$preset"
  (cd "$root" && cmake --build --preset "$preset" "${targets[@]}")
  print_left_out
  report "testing build/$preset"
  (cd "$root" && ctest --preset "$preset" -j "$(nproc)" "${only[@]}" "$@")
}

# Instruction sets below this processor's own, as TESSERA_ISA_MAX takes them.
lowered_instruction_sets() {
  local own name
  own=$("$root/build/release/bin/tessera" doctor | sed -n 's/^ *instruction set of the processor: *\([a-z0-9_]*\).*/\1/p')
  for name in baseline avx2 avx512 avx512_bf16 amx; do
    [[ $name != "$own" ]] || break
    echo "$name"
  done
}

# The file with the lines of the parts that passed on this commit; /dev/null where files differ from it.
passed_parts() {
  local commit
  if ! commit=$(git -C "$root" rev-parse --verify HEAD 2>/dev/null) || [[ -n $(git -C "$root" status --porcelain) ]]; then
    echo /dev/null
    return
  fi
  mkdir -p "$root/build/passed"
  echo "$root/build/passed/$commit"
}

# run_and_record NAME COMMAND...: runs COMMAND and adds a line with its outcome and time to the table.
run_and_record() {
  local name=$1 started=$SECONDS outcome=passed passed line
  shift
  passed=$(passed_parts)
  if [[ -f $passed ]] && line=$(grep -F "$name  " "$passed"); then
    report "$name: passed on this commit before"
    table+=("$line, before")
    return
  fi
  report "$name"
  # COMMAND is a process of its own, which stops at its first error: a function in a condition would not.
  "$@" || outcome=FAILED
  table+=("$(printf '%-34s  %-7s %5d s' "$name" "$outcome" $((SECONDS - started)))")
  if [[ $outcome == passed ]]; then
    echo "${table[-1]}" >>"$passed"
  else
    everything=FAILED
  fi
}

test_all() {
  install_missing_packages
  install_optional_packages "${compiler_packages[@]}" "${lint_packages[@]}"
  table=() everything=passed
  local self=${BASH_SOURCE[0]} isa order blocks
  run_and_record "lint" "$root/tools/lint.sh"
  run_and_record "release" "$self" --preset release
  for isa in $(lowered_instruction_sets); do
    run_and_record "release, TESSERA_ISA_MAX=$isa" env TESSERA_ISA_MAX="$isa" "$self" --preset release
  done
  for order in eager lazy random; do
    for blocks in ascending descending random; do
      find_nvcc >/dev/null || continue
      run_and_record "devices, $order, blocks $blocks" env TESSERA_CUDA_SIM_ORDER=$order TESSERA_CUDA_SIM_BLOCKS=$blocks \
        "$self" --preset release -L '^cuda$'
    done
  done
  for preset in asan tsan clang-14 clang-16; do
    run_and_record "$preset" "$self" --preset "$preset"
  done
  report "everything:"
  printf '==   %s\n' "${table[@]}"
  [[ $everything == passed ]]
}

if [[ $all == yes ]]; then
  test_all
  exit
fi
install_missing_packages
case $preset in
  clang-*) command -v "clang++-${preset#clang-}" >/dev/null || install_optional_packages "$preset" ;;
esac
build_and_test "$preset" "${ctest_options[@]}"
