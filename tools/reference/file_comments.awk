# The filter through which Doxygen reads headers. A comment above `namespace tessera... {` describes the file, so it
# becomes the file's comment (Doxygen would give it to the namespace). "et al." ends no sentence. Declarations that a
# list of tensor/elementwise/op_lists.h generates, `LIST(TESSERA_DECLARE)`, are written out, with the list's comments.
function flush(   i) {
  for (i = 1; i <= count; ++i) print held[i]
  count = 0
}
# One declaration for each X(name) of the list, by the last `#define TESSERA_DECLARE(name) ...`.
function write_out(list,   file, line, inside, parts, i, comment, declared) {
  file = "tensor/elementwise/op_lists.h"
  while ((getline line < file) > 0) {
    if (line ~ "^#define " list "\\(X\\)") inside = 1
    if (!inside) continue
    comment = ""
    if (match(line, /\/\* .* \*\//)) comment = "  ///< " substr(line, RSTART + 3, RLENGTH - 6)
    i = split(line, parts, /X\(/)
    for (declared = 2; declared <= i; ++declared) {
      if (parts[declared] !~ /^[a-z]/) continue
      sub(/\).*/, "", parts[declared])
      print with_name(parts[declared]) comment
    }
    if (line !~ /\\$/) break
  }
  close(file)
}
function with_name(name,   text) {
  text = declaration
  sub(/name(##)?/, name, text)
  return text
}
{ gsub(/et al\. /, "et al.\\ "); sub(/et al\.$/, "et al.\\ ") }
/^\/\/\// { held[++count] = $0; next }
/^namespace tessera[a-z:]* \{/ && count { print "/// @file" }
sub(/^#define TESSERA_DECLARE\(name\) /, "") { declaration = $0; next }
/^#undef TESSERA_DECLARE$/ { next }
/^TESSERA_[A-Z_]*\(TESSERA_DECLARE\)$/ { flush(); sub(/\(.*/, ""); write_out($0); next }
{ flush(); print }
END { flush() }
