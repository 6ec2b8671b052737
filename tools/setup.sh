# shellcheck shell=bash
# Sourced by train.sh, test.sh and lint.sh: makes sure that what a build needs is on this machine, then configures.
#   install_missing_packages           installs what is missing from Debian's packages, saying what
#   install_optional_packages NAME...  the same for these, going on without those that cannot be had
#   configure PRESET [CMake options]   configures build/PRESET, prints what was found, leaves it in found_table
# Nothing is asked for, and once the packages are there nothing touches the network.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '== %s\n' "$*"; }
fail() {
  printf '== error: %s\n' "$*" >&2
  exit 1
}

# A build stops without these.
required_packages=(g++ cmake ninja-build libeigen3-dev libxxhash-dev libjsoncpp-dev libcurl4-openssl-dev libssl-dev
  libcli11-dev doctest-dev ca-certificates)
# A build does without these, slower or smaller.
optional_packages=(libdnnl-dev libopenmpi-dev openmpi-bin iproute2 libbenchmark-dev ccache lld)

# For tools/test.sh --all, and for tools/lint.sh.
# shellcheck disable=SC2034
compiler_packages=(clang-14 clang-16)
# shellcheck disable=SC2034
lint_packages=(clang-format clang-tidy shellcheck)

# The packages among the arguments that are not here, one a line. Tools may come from elsewhere than a package.
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

# apt-get as root: as we are, or through sudo, which may ask for a password only where there is a terminal. Its words
# are kept for when it fails.
apt() {
  local as_root=() log status=0
  if [[ $EUID != 0 ]]; then
    if sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    elif [[ -t 0 ]] && command -v sudo >/dev/null; then
      as_root=(sudo)
    else
      say "neither root nor sudo: apt-get $* is left to you"
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
    say "no apt-get here: going on with what there is; needed: ${required_packages[*]}"
    return
  fi
  local required optional package
  mapfile -t required < <(missing_packages "${required_packages[@]}")
  mapfile -t optional < <(missing_packages "${optional_packages[@]}")
  ((${#required[@]} + ${#optional[@]})) || return 0

  say "installing from the distribution's packages: ${required[*]} ${optional[*]}"
  apt update || say "the package lists could not be brought up to date; trying with those at hand"
  if ((${#required[@]})) && ! apt install --no-install-recommends "${required[@]}"; then
    fail "these packages are missing and could not be installed: ${required[*]}
   install them by hand:  sudo apt-get install ${required[*]}"
  fi
  for package in "${optional[@]}"; do
    apt install --no-install-recommends "$package" || say "going on without $package, which is optional"
  done
}

install_optional_packages() {
  command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || return 0
  local missing package
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  say "installing from the distribution's packages: ${missing[*]}"
  apt update || say "the package lists could not be brought up to date; trying with those at hand"
  for package in "${missing[@]}"; do
    apt install --no-install-recommends "$package" || say "going on without $package"
  done
}

configure() {
  local preset=$1 log
  shift
  say "configuring build/$preset"
  local generator=()
  command -v ninja >/dev/null || generator=(-G "Unix Makefiles")
  log=$(mktemp)
  if ! (cd "$root" && cmake --preset "$preset" "${generator[@]}" "$@") >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    fail "CMake could not configure build/$preset"
  fi
  # The table of what was found; the rest of CMake's words are for when it fails.
  found_table=$(sed -n '/^-- Tessera /,/^-- Configuring done/{/^-- Configuring done/!p}' "$log")
  rm -f "$log"
  printf '%s\n' "$found_table"
}
