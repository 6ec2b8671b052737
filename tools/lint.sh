#!/usr/bin/env bash
# usage: tools/lint.sh [--format] [FILE...]
# Checks the format (clang-format), that every header compiles alone, clang-tidy and shellcheck: on the files given,
# else on every source of the repository, and then the reference too (reference.sh: every public name has a comment);
# with --format, format and scripts alone, which takes seconds. Changes no file; `clang-format -i FILE` repairs the
# format.
set -euo pipefail
# shellcheck source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$root"

format_only=no
if [[ ${1-} == --format ]]; then
  format_only=yes
  shift
fi
tools=("${lint_packages[@]}")
[[ $format_only == no ]] || tools=(clang-format shellcheck)
install_optional_packages "${tools[@]}"
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || fail "$tool is missing and could not be installed"
done

files=("$@")
if ((${#files[@]} == 0)); then
  mapfile -d '' -t files < <(git ls-files -z '*.h' '*.cpp' '*.cu' '*.cuh' '*.sh' .ci/run)
fi
formatted=() headers=() sources=() scripts=()
for file in "${files[@]}"; do
  [[ -e $file ]] || continue # deleted, and not yet committed
  case $file in
    *.h | *.cpp | *.cu | *.cuh) formatted+=("$file") ;;
    *) scripts+=("$file") ;;
  esac
  case $file in
    *.h) headers+=("$file") ;;
    tests/consumer/*) ;; # a project of its own
    tests/compiling/mistakes/*) ;; # they do not compile
    *.cpp) sources+=("$file") ;;
  esac
done
wrong=0

report "clang-format on ${#formatted[@]} files"
((${#formatted[@]} == 0)) || clang-format --dry-run --Werror "${formatted[@]}" || wrong=1

report "shellcheck on ${#scripts[@]} scripts"
((${#scripts[@]} == 0)) || shellcheck "${scripts[@]}" || wrong=1

if [[ $format_only == yes ]]; then
  ((wrong == 0)) && report "nothing found"
  exit $wrong
fi

(($#)) || tools/reference.sh || wrong=1

configure debug >/dev/null # for build/debug/compile_commands.json and the generated headers

report "${#headers[@]} headers, each alone"
if ((${#headers[@]})); then
  # shellcheck disable=SC2016
  printf '%s\0' "${headers[@]}" | xargs -0 -P "$(nproc)" -I{} sh -c \
    'echo "#include \"$1\"" | g++ -std=c++20 -fsyntax-only -Wall -Wextra -I . -I build/debug/include \
       -isystem /usr/include/jsoncpp -isystem /usr/include/eigen3 \
       -DTESSERA_ISA=baseline -x c++ -' sh {} || wrong=1
fi

report "clang-tidy on ${#sources[@]} sources"
if ((${#sources[@]})); then
  printf '%s\0' "${sources[@]}" | xargs -0 -P "$(nproc)" -n 4 \
    clang-tidy --quiet -p build/debug --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-bitwise-instead-of-logical 2>/dev/null || wrong=1
fi

((wrong == 0)) && report "nothing found"
exit $wrong
