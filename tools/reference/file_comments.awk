# The filter through which Doxygen reads headers. A comment above `namespace tessera... {` describes the file, so it
# becomes the file's comment (Doxygen would give it to the namespace). "et al." ends no sentence.
function flush(   i) {
  for (i = 1; i <= count; ++i) print held[i]
  count = 0
}
{ gsub(/et al\. /, "et al.\\ "); sub(/et al\.$/, "et al.\\ ") }
/^\/\/\// { held[++count] = $0; next }
/^namespace tessera[a-z:]* \{/ && count { print "/// @file" }
{ flush(); print }
END { flush() }
