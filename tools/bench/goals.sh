#!/usr/bin/env bash
# Measures every goal of one process on this machine beside PyTorch, and adds the table to RESULTS.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=../setup.sh
source "$here/../setup.sh"

usage() {
  cat <<TEXT
usage: tools/bench/goals.sh [--python FILE] [--dry-run] [options of run_goals.py]

  --python FILE   a Python with PyTorch (default: one in build/peers, made by pip where it is missing)
  --dry-run       print the table, and leave RESULTS.md as it is
  options         for example --rows nano-cpu/fp32 --pairs 5; run_goals.py --help has all
TEXT
}

python="" dry=no options=()
while (($#)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --python)
      (($# > 1)) || fail "--python needs a file"
      python=$2 && shift ;;
    --dry-run) dry=yes ;;
    *) options+=("$1") ;;
  esac
  shift
done

install_missing_packages
if [[ -z $python ]]; then
  python=$root/build/peers/bin/python
  if [[ ! -x $python ]] || ! "$python" -c 'import torch' 2>/dev/null; then
    report "installing PyTorch into build/peers"
    python3 -m venv "$root/build/peers"
    "$python" -m pip install --quiet torch
  fi
fi
"$python" -c 'import torch' || fail "$python has no PyTorch"
configure release
report "building build/release"
cmake --build "$root/build/release" --target gptlite bench_bench_gptlite bench_bench_products

table=$(mktemp)
report "measuring; the machine should be idle"
"$python" "$here/run_goals.py" --python "$python" "${options[@]}" | tee "$table"
if [[ $dry == no ]]; then
  "$python" - "$here/RESULTS.md" "$table" "tools/bench/goals.sh ${options[*]}" <<'PYTHON'
import pathlib, sys
results, table, command = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text(), sys.argv[3].strip()
title, _, rest = table.partition("\n")
text = results.read_text()
at = text.index("\n## ") + 1  # newest first
results.write_text(f"{text[:at]}## {title}\n\n### Goals of one process\n{rest.rstrip()}\n\n    {command}\n\n{text[at:]}")
PYTHON
  report "added to tools/bench/RESULTS.md"
fi
rm -f "$table"
