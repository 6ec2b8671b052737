# cmake -DSOURCE=DIR -DGENERATED=DIR -DOUTPUT=DIR -DFOLDERS=a:b -P PublicHeaders.cmake
# Writes to OUTPUT/tessera the headers that users of the library include: <tessera/tessera.h>, and those that it
# includes, directly or through others. Inside the project an include is written from the project's root
# ("tensor/shape.h"); here it becomes "tessera/tensor/shape.h", so that it never finds a user's own folder tensor/.
# Files that did not change keep their time.
cmake_minimum_required(VERSION 3.25)
string(REPLACE ":" "|" any_folder "${FOLDERS}")

# write_public(FILE NAME INCLUDED): FILE as OUTPUT/tessera/NAME. INCLUDED: the project's headers that it includes.
function(write_public file name included)
  file(READ "${file}" text)
  string(REGEX MATCHALL "#include \"(${any_folder})/[^\"]+" includes "${text}")
  list(TRANSFORM includes REPLACE "#include \"" "")
  set(${included} "${includes}" PARENT_SCOPE)
  string(REGEX REPLACE "#include \"(${any_folder})/" "#include \"tessera/\\1/" text "${text}")
  set(output "${OUTPUT}/tessera/${name}")
  if(EXISTS "${output}")
    file(READ "${output}" old)
    if("${old}" STREQUAL "${text}")
      return()
    endif()
  endif()
  file(WRITE "${output}" "${text}")
endfunction()

set(names "")
set(headers "")
file(GLOB generated RELATIVE "${GENERATED}/tessera" "${GENERATED}/tessera/*.h")
foreach(name IN LISTS generated)
  write_public("${GENERATED}/tessera/${name}" "${name}" included)
  list(APPEND names "${name}")
  list(APPEND headers ${included})
endforeach()
while(headers)
  list(POP_FRONT headers header)
  if(NOT header IN_LIST names)
    write_public("${SOURCE}/${header}" "${header}" included)
    list(APPEND names "${header}")
    list(APPEND headers ${included})
  endif()
endwhile()

# Deletes the headers that are public no longer.
file(GLOB_RECURSE written RELATIVE "${OUTPUT}/tessera" "${OUTPUT}/tessera/*.h")
list(REMOVE_ITEM written ${names})
foreach(name IN LISTS written)
  file(REMOVE "${OUTPUT}/tessera/${name}")
endforeach()
