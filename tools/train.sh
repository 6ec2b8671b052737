#!/usr/bin/env bash
# Trains GPT-lite on tiny Shakespeare for a few minutes and prints a sample; installs missing packages first. Options
# are those of `gptlite train`, and override the defaults chosen here.
set -euo pipefail
# shellcheck source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# Whether one of the user's options is NAME or NAME=VALUE.
is_given() {
  local name=$1 option
  shift
  for option in "$@"; do
    [[ $option == "$name" || $option == "$name="* ]] && return 0
  done
  return 1
}

# The value of option NAME among the rest.
value_of() {
  local name=$1
  shift
  while (($#)); do
    case $1 in
      "$name") printf '%s' "${2-}" && return ;;
      "$name="*) printf '%s' "${1#*=}" && return ;;
    esac
    shift
  done
}

directory=$PWD # relative paths among the options are the user's
install_missing_packages
configure release
report "building gptlite"
cmake --build "$root/build/release" --target gptlite
gptlite=$root/build/release/bin/gptlite

if is_given --help "$@" || is_given -h "$@"; then
  exec "$gptlite" train --help
fi

# nano-cpu takes about a minute on two cores, a size for a CPU; the user's options replace the defaults.
options=()
is_given --preset "$@" || options+=(--preset nano-cpu)
if is_given --out "$@"; then
  out=$(value_of --out "$@")
elif is_given --resume "$@"; then
  out=
else
  out=$root/out/train-$(date +%Y%m%d-%H%M%S)-$$
  options+=(--out "$out")
fi

cd "$directory"
report "training: gptlite train ${options[*]} $*"
status=0
"$gptlite" train "${options[@]}" "$@" || status=$?

# 3: data or checkpoint refused. Without these options the reason can only be the text.
if ((status == 3)) && ! is_given --dataset "$@" && ! is_given --data "$@" && ! is_given --resume "$@"; then
  cat >&2 <<'TEXT'

 *********************************************************************************************************
 **  TINY SHAKESPEARE COULD NOT BE LOADED (the reason is above). TRAINING ON THE BUILT-IN PLAY INSTEAD.  **
 **  It is written by a small grammar; its losses do not compare with those of tiny Shakespeare.         **
 **  To use a copy of the text:  tools/train.sh --data FILE                                              **
 *********************************************************************************************************

TEXT
  status=0
  "$gptlite" train "${options[@]}" --dataset builtin "$@" || status=$?
fi
((status == 0)) || exit "$status"

if [[ -n $out ]]; then
  report "a sample: gptlite sample --checkpoint ${out@Q}"
  "$gptlite" sample --checkpoint "$out"
fi
