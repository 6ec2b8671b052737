#!/usr/bin/env bash
# usage: mistakes.sh COMPILER FOLDER_OF_HEADERS...
# Each source in mistakes/ is a program that users write at first and that must not compile. The compiler's output must
# name it, and contain the text after "// expect:", which says what to write. All are compiled at once, each in a
# namespace of its own.
set -euo pipefail

compiler=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

{
  echo '#include <tessera/tessera.h>'
  for source in "$here"/mistakes/*.cpp; do
    name=$(basename "$source" .cpp)
    printf 'namespace %s {\n#include "%s"\n}\n' "$name" "$source"
  done
} >"$folder/all.cpp"
limit=-fmax-errors=0
"$compiler" --version | grep -q clang && limit=-ferror-limit=0
if LC_ALL=C "$compiler" -std=c++20 -fsyntax-only "$limit" "${@/#/-I}" "$folder/all.cpp" >"$folder/output" 2>&1; then
  echo "the mistakes compile"
  exit 1
fi

wrong=0
count=0
for source in "$here"/mistakes/*.cpp; do
  name=$(basename "$source")
  expected=$(sed -n 's|^// expect: ||p' "$source")
  grep -qE "/$name:[0-9]+|\b${name%.cpp}::" "$folder/output" || {
    echo "$name: compiles"
    wrong=1
  }
  grep -qF -- "${expected:?no line '// expect: TEXT' in $name}" "$folder/output" || {
    echo "$name: expected the compiler to print '$expected', got:"
    grep -E -A 12 "/$name:[0-9]+" "$folder/output" || true
    wrong=1
  }
  count=$((count + 1))
done
# What does not begin at a mistake is an error of the headers.
if grep -E "error: (expected|redefinition|.* was not declared|use of undeclared)" "$folder/output"; then wrong=1; fi
((wrong == 0)) && echo "$count mistakes are errors that say what to write"
exit $wrong
