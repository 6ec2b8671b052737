# cmake -DSOURCE=DIR -DGENERATED=DIR -DOUTPUT=DIR -DFOLDERS=a:b -P PublicHeaders.cmake
# Writes to OUTPUT/tessera the headers that users of the library include. Inside the project an include is written
# from the project's root ("tensor/shape.h"); here it becomes "tessera/tensor/shape.h", so that it never finds a
# user's own folder tensor/. Files that did not change keep their time.
string(REPLACE ":" ";" folders "${FOLDERS}")
string(REPLACE ":" "|" any_folder "${FOLDERS}")

# write_public(FILE NAME): FILE as OUTPUT/tessera/NAME.
function(write_public file name)
  file(READ "${file}" text)
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
file(GLOB generated RELATIVE "${GENERATED}/tessera" "${GENERATED}/tessera/*.h")
foreach(name IN LISTS generated)
  write_public("${GENERATED}/tessera/${name}" "${name}")
  list(APPEND names "${name}")
endforeach()
foreach(folder IN LISTS folders)
  file(GLOB_RECURSE headers RELATIVE "${SOURCE}" "${SOURCE}/${folder}/*.h")
  list(FILTER headers EXCLUDE REGEX "^tensor/(cpu|cuda)/") # kernels are reached through tensor/ops
  foreach(header IN LISTS headers)
    write_public("${SOURCE}/${header}" "${header}")
  endforeach()
  list(APPEND names ${headers})
endforeach()

# Deletes the headers that the project no longer has.
file(GLOB_RECURSE written RELATIVE "${OUTPUT}/tessera" "${OUTPUT}/tessera/*.h")
list(REMOVE_ITEM written ${names})
foreach(name IN LISTS written)
  file(REMOVE "${OUTPUT}/tessera/${name}")
endforeach()
