#!/usr/bin/env bash
# Builds Tessera and runs every test that this machine can run; sets the machine up first where something is missing.
set -euo pipefail
# shellcheck source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

usage() {
  cat <<TEXT
usage: tools/test.sh [--preset NAME] [--fast] [ctest options]
       tools/test.sh --all

  --preset NAME   release (default), debug, asan, tsan, clang-14, clang-16 or cuda
  --fast          only the tests of ${fast_folders[*]}, and only what they need is built
  --all           everything, one after another: lint.sh, the presets release, asan, tsan, clang-14 and clang-16, and
                  the release tests under each instruction set below this processor's own; a table at the end. Hours.
  ctest options   for example -L tensor (one folder's tests) or -R attention (by name)
TEXT
}

# Folders whose tests take seconds: what every change is tried on under the address sanitizer.
fast_folders=(tensor ops autograd nn optim data models)
presets=(release debug asan tsan clang-14 clang-16 cuda)

preset=release fast=no all=no
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
[[ $preset != cuda ]] || command -v nvcc >/dev/null || fail "the preset cuda needs nvcc, which is not here"

# What the tests below leave out on this machine, and why.
print_left_out() {
  left_out() { printf '==   %s\n' "$*"; }
  say "not run here:"
  [[ $preset == cuda ]] || left_out "device code: --preset cuda builds it (needs nvcc)"
  grep -q 'oneDNN *found' <<<"$found_table" || left_out "matrix products on oneDNN: not in this build, Eigen serves alone"
  grep -qw amx_bf16 /proc/cpuinfo 2>/dev/null || left_out "products of bf16 on tiles (amx): this processor has none"
  grep -qw avx512_bf16 /proc/cpuinfo 2>/dev/null || left_out "products of bf16 on vectors (avx512_bf16): this processor has none"
  grep -qw avx512f /proc/cpuinfo 2>/dev/null || left_out "AVX-512 kernels: this processor has none"
  grep -qw avx2 /proc/cpuinfo 2>/dev/null || left_out "AVX2 kernels: this processor has none"
  case $preset in
    asan | tsan) ;;
    *) left_out "sanitizers: --preset asan, --preset tsan; everything: --all" ;;
  esac
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
  configure "$preset"
  say "building build/$preset"
  (cd "$root" && cmake --build --preset "$preset" "${targets[@]}")
  print_left_out
  say "testing build/$preset"
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

# try NAME COMMAND...: runs it and adds a line with its outcome and its time to the table.
try() {
  local name=$1 started=$SECONDS outcome=passed
  shift
  say "$name"
  # In a process of its own, which stops at the first error: within a condition bash does not.
  "$@" || outcome=FAILED
  table+=("$(printf '%-34s %-7s %5d s' "$name" "$outcome" $((SECONDS - started)))")
  [[ $outcome == passed ]] || everything=FAILED
}

test_all() {
  install_missing_packages
  install_optional_packages "${compiler_packages[@]}" "${lint_packages[@]}"
  table=() everything=passed
  local self=${BASH_SOURCE[0]} isa
  try "lint" "$root/tools/lint.sh"
  try "release" "$self" --preset release
  for isa in $(lowered_instruction_sets); do
    try "release, TESSERA_ISA_MAX=$isa" env TESSERA_ISA_MAX="$isa" "$self" --preset release
  done
  for preset in asan tsan clang-14 clang-16; do
    try "$preset" "$self" --preset "$preset"
  done
  say "everything:"
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
