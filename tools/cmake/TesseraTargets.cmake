# How the libraries, the tests and the programs of Tessera are compiled. All options are set by target, so that a
# project that fetches Tessera keeps its own flags.

# tessera_compile_options(TARGET): language level, warnings and optimisation. Targets that link TARGET inherit only
# the language level.
function(tessera_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  # No contraction: a product and a sum are fused only where the source calls fma, so that every processor and
  # every loop tail gives the same bits. CMake 3.25 does not support C++20 in nvcc, hence -std=c++20.
  target_compile_options(
    ${target}
    PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off
            -fno-semantic-interposition
            -Wall
            -Wextra
            -Wpedantic
            -Wshadow=local
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wcast-align
            -Wformat=2
            -Wundef
            $<$<BOOL:${TESSERA_WARNINGS_AS_ERRORS}>:-Werror>
            # Sources disable some warnings by names that only g++ has; & of truth values is intended (no branches);
            # a loop that was not vectorized is no error.
            $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-warning-option;-Wno-bitwise-instead-of-logical;-Wno-pass-failed>
            $<$<CONFIG:Release>:-O2>
            $<$<CONFIG:Debug>:-Og>>
            $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20
            --fmad=false
            --expt-relaxed-constexpr
            # The simulated card reads PTX from the objects, and names lines in its findings.
            -lineinfo
            -Xfatbin=--compress-mode=none
            $<$<BOOL:${TESSERA_WARNINGS_AS_ERRORS}>:--Werror=all-warnings>>)
  if(TESSERA_COMPILER_LAUNCHER)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "${TESSERA_COMPILER_LAUNCHER}"
                                               CUDA_COMPILER_LAUNCHER "${TESSERA_COMPILER_LAUNCHER}")
  endif()
  if(TESSERA_LINKER)
    target_link_options(${target} PRIVATE -fuse-ld=${TESSERA_LINKER})
  endif()
endfunction()

# tessera_precompile(TARGET): the standard headers that most sources include, parsed once for TARGET, which takes a
# third off its compile time. None of Tessera's headers, so that a change of one compiles what includes it, no more.
function(tessera_precompile target)
  if(TESSERA_PRECOMPILED_HEADERS)
    target_precompile_headers(
      ${target}
      PRIVATE
      <algorithm>
      <functional>
      <map>
      <memory>
      <optional>
      <span>
      <sstream>
      <string>
      <unordered_map>
      <vector>)
  endif()
endfunction()

# tessera_library(FOLDER [DEPENDS FOLDER...]): the static library tessera::FOLDER from every .cpp below the
# current folder, except those that match EXCLUDE. DEPENDS names the folders whose headers it may include.
function(tessera_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXCLUDE" "DEPENDS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.h")
  if(arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${arg_EXCLUDE}")
  endif()
  if(NOT sources)
    # A folder of headers alone is a library too, so that others can link it.
    set(sources "${CMAKE_CURRENT_BINARY_DIR}/headers_only.cpp")
    file(CONFIGURE OUTPUT "${sources}" CONTENT "")
  endif()
  add_library(tessera_${folder} STATIC ${sources} ${headers})
  add_library(tessera::${folder} ALIAS tessera_${folder})
  set_target_properties(tessera_${folder} PROPERTIES EXPORT_NAME ${folder})
  tessera_compile_options(tessera_${folder})
  tessera_precompile(tessera_${folder})
  # The project's root is on the include path of its own targets alone; users of the library see <tessera/...>.
  if(PROJECT_IS_TOP_LEVEL)
    target_include_directories(tessera_${folder} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR};${PROJECT_BINARY_DIR}/include>")
  else()
    target_include_directories(
      tessera_${folder}
      PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/include"
      INTERFACE "$<BUILD_INTERFACE:${TESSERA_PUBLIC_HEADERS}>")
  endif()
  target_include_directories(tessera_${folder} INTERFACE $<INSTALL_INTERFACE:include>)
  list(TRANSFORM arg_DEPENDS PREPEND tessera_)
  target_link_libraries(tessera_${folder} PUBLIC ${arg_DEPENDS})
endfunction()

# tessera_generate_headers(): <tessera/tessera.h>, <tessera/version.h> and <tessera/build.h> in the build tree; the
# headers for users (PublicHeaders.cmake), now in a project that fetches Tessera, else when it is installed.
function(tessera_generate_headers)
  set(includes "")
  foreach(folder IN LISTS TESSERA_FOLDERS)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/${folder}/*.h")
    list(SORT headers)
    foreach(header IN LISTS headers)
      # What only the library's own sources call is not in tessera.h, for the time that it takes to compile, nor is
      # what programs include by its name: <tessera/autograd/record.h>.
      file(STRINGS "${PROJECT_SOURCE_DIR}/${header}" first_line LIMIT_COUNT 1)
      if(NOT first_line MATCHES "^#pragma once  // (internal|not in tessera.h)$")
        string(APPEND includes "#include \"${header}\"\n")
      endif()
    endforeach()
  endforeach()
  set(TESSERA_INCLUDES "${includes}")
  foreach(header IN ITEMS tessera version build)
    configure_file("${PROJECT_SOURCE_DIR}/tools/cmake/${header}.h.in" "${PROJECT_BINARY_DIR}/include/tessera/${header}.h" @ONLY)
  endforeach()
  string(REPLACE ";" ":" folders "${TESSERA_FOLDERS}")
  set(write_public_headers "${CMAKE_COMMAND}" "-DSOURCE=${PROJECT_SOURCE_DIR}" "-DGENERATED=${PROJECT_BINARY_DIR}/include"
                           "-DOUTPUT=${TESSERA_PUBLIC_HEADERS}" "-DFOLDERS=${folders}" -P
                           "${PROJECT_SOURCE_DIR}/tools/cmake/PublicHeaders.cmake")
  if(NOT PROJECT_IS_TOP_LEVEL)
    execute_process(COMMAND ${write_public_headers} COMMAND_ERROR_IS_FATAL ANY)
    foreach(folder IN LISTS TESSERA_FOLDERS)
      file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.h")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
    endforeach()
  endif()
  set(TESSERA_WRITE_PUBLIC_HEADERS "${write_public_headers}" PARENT_SCOPE) # for the installation
endfunction()
