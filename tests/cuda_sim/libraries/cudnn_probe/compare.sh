#!/bin/sh
# compare.sh PROBE STAND_IN DRIVER CUDNN KNOWN: what the stand-in in a folder accepts, and what the real library does.
# KNOWN lists the rows that differ, each with its reason: "row | reason".
set -eu
probe=$1 stand_in=$2 driver=$3 cudnn=$4 known=$5
if [ ! -e "$cudnn/libcudnn_graph.so.9" ]; then
  echo "skipped: there is no cuDNN 9 in $cudnn"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
LD_LIBRARY_PATH=$stand_in "$probe" > "$folder/simulated"
LD_LIBRARY_PATH=$driver:$cudnn "$probe" > "$folder/real"
# The step in brackets may differ: both refuse it with the same status.
sed -i 's/ (.*//' "$folder/simulated" "$folder/real"
diff "$folder/simulated" "$folder/real" | sed -n 's/^> //p' > "$folder/differ" || true
sed -n 's/ | .*//p' "$known" | sort > "$folder/known"
sed 's/: \(accepted\|refused\).*//' "$folder/differ" | sort > "$folder/found"
echo "$(wc -l < "$folder/real") graphs, $(wc -l < "$folder/found") known to differ"
if ! cmp -s "$folder/known" "$folder/found"; then
  echo "the list of known differences is not what was found (< listed, > found):"
  diff "$folder/known" "$folder/found" || true
  cat "$folder/differ"
  exit 1
fi
