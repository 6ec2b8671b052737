#!/usr/bin/env bash
# usage: tools/reference.sh
# Makes the reference of the public interface from the /// comments, with Doxygen: build/reference/html/index.html. An
# undocumented public name is an error, and so is a comment that Doxygen cannot read.
set -euo pipefail
# shellcheck source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$root"

if (($#)); then
  sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}"
  [[ $1 == -h || $1 == --help ]] && exit 0
  exit 2
fi
install_optional_packages doxygen
command -v doxygen >/dev/null || fail "doxygen is missing and could not be installed"

warnings=build/reference/warnings.txt
mkdir -p build/reference
# A header that only the library's own sources call says so in its first line.
mapfile -t headers < <(grep -rL --include='*.h' -x '#pragma once  // internal' tensor autograd nn optim data models dist)
doxygen - < <(cat tools/reference/Doxyfile && echo "INPUT = tools/reference/main_page.dox ${headers[*]}")
if [[ -s $warnings ]]; then
  sed "s|^$root/||" "$warnings" >&2
  fail "$(wc -l <"$warnings") names without a comment, or comments with errors"
fi
report "build/reference/html/index.html"
