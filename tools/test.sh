#!/usr/bin/env bash
# Builds Tessera and runs every test that this machine can run; sets the machine up first where something is missing.
set -euo pipefail
# shellcheck source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

usage() {
  cat <<TEXT
usage: tools/test.sh [--preset NAME] [ctest options]

  --preset NAME   release (default), debug, asan, tsan or cuda
  ctest options   for example -L tensor (one folder's tests) or -R attention (by name)
TEXT
}

preset=release
ctest_options=()
while (($#)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --preset)
      (($# > 1)) || fail "--preset needs a name: release, debug, asan, tsan or cuda"
      preset=$2 && shift ;;
    --preset=*) preset=${1#*=} ;;
    *) ctest_options+=("$1") ;;
  esac
  shift
done
case $preset in
  release | debug | asan | tsan) ;;
  cuda) command -v nvcc >/dev/null || fail "the preset cuda needs nvcc, which is not here" ;;
  *) fail "unknown preset '$preset': release, debug, asan, tsan or cuda" ;;
esac

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
    *) left_out "sanitizers: --preset asan, --preset tsan" ;;
  esac
}

install_missing_packages
configure "$preset"
say "building build/$preset"
cd "$root"
cmake --build --preset "$preset"
print_left_out
say "testing build/$preset"
ctest --preset "$preset" -j "$(nproc)" "${ctest_options[@]}"
