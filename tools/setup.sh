# shellcheck shell=bash
# Sourced by train.sh, test.sh and lint.sh: installs the packages that a build needs, then configures.
#   install_missing_packages           installs the missing Debian packages, and prints their names
#   install_optional_packages NAME...  the same for these; one that cannot be installed is left out
#   find_nvcc                          prints the path of nvcc, 13 or later: PATH, the usual folders, build/cuda_toolkit
#   install_cuda_toolkit               installs CUDA's toolkit from PyPI into build/cuda_toolkit; Debian has none
#   configure PRESET [CMake options]   configures build/PRESET, prints what was found, leaves it in found_table
# No questions are asked. With all packages installed, nothing uses the network.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Objects of another checkout of the same sources are taken from the cache too.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

report() { printf '== %s\n' "$*"; }
fail() {
  printf '== error: %s\n' "$*" >&2
  exit 1
}

# Required by every build.
required_packages=(g++ cmake ninja-build libeigen3-dev libxxhash-dev libjsoncpp-dev libcurl4-openssl-dev libssl-dev
  libcli11-dev doctest-dev ca-certificates)
# Without these a build is slower or has fewer features.
optional_packages=(libdnnl-dev libopenmpi-dev openmpi-bin iproute2 libprotobuf-dev protobuf-compiler libbenchmark-dev ccache
  lld)

# For tools/test.sh --all, and for tools/lint.sh.
# shellcheck disable=SC2034
compiler_packages=(clang-14 clang-16)
# shellcheck disable=SC2034
lint_packages=(clang-format clang-tidy shellcheck)

# The packages among the arguments that are not installed, one a line. A tool need not come from a package.
missing_packages() {
  local package
  for package in "$@"; do
    case $package in
      g++ | cmake | ccache) command -v "$package" >/dev/null && continue ;;
      ninja-build) command -v ninja >/dev/null && continue ;;
      lld) command -v ld.lld >/dev/null && continue ;;
      clang-format | clang-tidy | shellcheck) command -v "$package" >/dev/null && continue ;;
      clang-[0-9]*) command -v "clang++-${package#clang-}" >/dev/null && continue ;;
    esac
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
  done
}

# Runs apt-get as root, directly or through sudo, which may ask for a password only on a terminal. Prints the end of
# its output where it fails.
apt() {
  local as_root=() log status=0
  if [[ $EUID != 0 ]]; then
    if sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    elif [[ -t 0 ]] && command -v sudo >/dev/null; then
      as_root=(sudo)
    else
      report "not root, and no sudo: apt-get $* must be run by hand"
      return 1
    fi
  fi
  log=$(mktemp)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300 "$@" </dev/null >"$log" 2>&1 ||
    status=$?
  ((status == 0)) || tail -n 5 "$log"
  rm -f "$log"
  return $status
}

install_missing_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    report "no apt-get here: continuing with what is installed; needed: ${required_packages[*]}"
    return
  fi
  local required optional package
  mapfile -t required < <(missing_packages "${required_packages[@]}")
  mapfile -t optional < <(missing_packages "${optional_packages[@]}")
  ((${#required[@]} + ${#optional[@]})) || return 0

  report "installing from the distribution's packages: ${required[*]} ${optional[*]}"
  apt update || report "the package lists could not be updated; using the present ones"
  if ((${#required[@]})) && ! apt install --no-install-recommends "${required[@]}"; then
    fail "these packages are missing and could not be installed: ${required[*]}
   install them by hand:  sudo apt-get install ${required[*]}"
  fi
  for package in "${optional[@]}"; do
    apt install --no-install-recommends "$package" || report "continuing without $package, which is optional"
  done
}

install_optional_packages() {
  command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || return 0
  local missing package
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  report "installing from the distribution's packages: ${missing[*]}"
  apt update || report "the package lists could not be updated; using the present ones"
  for package in "${missing[@]}"; do
    apt install --no-install-recommends "$package" || report "continuing without $package"
  done
}

# Where install_cuda_toolkit puts the toolkit, laid out as an ordinary one.
cuda_toolkit=$root/build/cuda_toolkit

find_nvcc() {
  local nvcc
  for nvcc in "$(command -v nvcc)" "${CUDA_PATH-}/bin/nvcc" "${CUDA_HOME-}/bin/nvcc" /usr/local/cuda/bin/nvcc "$cuda_toolkit/bin/nvcc"; do
    # The simulated card stands in for the libraries of CUDA 13.
    if [[ -x $nvcc ]] && "$nvcc" --version | grep -qE 'release (1[3-9]|[2-9][0-9])\.'; then
      echo "$nvcc"
      return
    fi
  done
  return 1
}

# The compiler and the headers that the sources need, and the tools of tools/cuda_report; the libraries themselves are
# needed on a card alone, except for those of which PyPI's package is the only source of headers.
cuda_packages=(nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-nvdisasm
  nvidia-cublas nvidia-nccl-cu13 nvidia-cudnn-cu13)
cuda_version=13.0

install_cuda_toolkit() {
  local log packages=() package
  for package in "${cuda_packages[@]}"; do
    case $package in
      *-cu13) packages+=("$package") ;; # has versions of its own
      *-nvdisasm) packages+=("$package>=$cuda_version") ;; # begins with 13.2, and reads older code
      *) packages+=("$package==$cuda_version.*") ;;
    esac
  done
  python3 -m pip --version >/dev/null 2>&1 || install_optional_packages python3 python3-pip
  report "installing CUDA's toolkit $cuda_version from PyPI into build/cuda_toolkit: ${cuda_packages[*]}"
  log=$(mktemp)
  mkdir -p "$root/build"
  local staging=$root/build/cuda_toolkit.incomplete
  rm -rf "$staging"
  if ! python3 -m pip install --no-input --target "$staging" "${packages[@]}" >"$log" 2>&1; then
    tail -n 5 "$log"
    rm -f "$log"
    fail "CUDA's toolkit could not be installed; put nvcc on PATH instead"
  fi
  rm -f "$log"
  # The packages of CUDA share one folder; NCCL and cuDNN have their own.
  local files=$staging/nvidia/cu13
  for package in nccl cudnn; do
    [[ ! -d $staging/nvidia/$package ]] || cp -a "$staging/nvidia/$package/." "$files/"
  done
  ln -sfn lib "$files/lib64"
  # CMake and the linker look for names without a version.
  local library
  for library in "$files"/lib/lib*.so.*; do
    ln -sf "$(basename "$library")" "${library%%.so.*}.so"
  done
  rm -rf "$cuda_toolkit"
  mv "$files" "$cuda_toolkit"
  rm -rf "$staging"
}

configure() {
  local preset=$1 log
  shift
  report "configuring build/$preset"
  local generator=()
  command -v ninja >/dev/null || generator=(-G "Unix Makefiles")
  log=$(mktemp)
  if ! (cd "$root" && cmake --preset "$preset" "${generator[@]}" "$@") >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    fail "CMake could not configure build/$preset"
  fi
  # The table of what was found; the rest of CMake's output is printed only where it fails.
  found_table=$(sed -n '/^-- Tessera /,/^-- Configuring done/{/^-- Configuring done/!p}' "$log")
  rm -f "$log"
  printf '%s\n' "$found_table"
}
