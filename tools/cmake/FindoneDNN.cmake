# Finds oneDNN by its header and library: Debian's CMake package needs OpenCL's headers, which Tessera does not
# use. oneDNN's threads come from OpenMP, which Tessera sets to one thread: so OpenMP is linked too, though no source is
# compiled with it. Defines oneDNN::oneDNN and oneDNN_FOUND.
find_path(oneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(oneDNN_LIBRARY dnnl)
if(oneDNN_INCLUDE_DIR)
  file(STRINGS "${oneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" lines REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
  string(REPLACE ";" "." oneDNN_VERSION "${numbers}")
endif()
find_package(OpenMP QUIET COMPONENTS CXX)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  oneDNN
  REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR OpenMP_CXX_FOUND
  VERSION_VAR oneDNN_VERSION)
mark_as_advanced(oneDNN_INCLUDE_DIR oneDNN_LIBRARY)
if(oneDNN_FOUND AND NOT TARGET oneDNN::oneDNN)
  add_library(oneDNN::oneDNN UNKNOWN IMPORTED)
  set_target_properties(
    oneDNN::oneDNN
    PROPERTIES IMPORTED_LOCATION "${oneDNN_LIBRARY}"
               INTERFACE_INCLUDE_DIRECTORIES "${oneDNN_INCLUDE_DIR}"
               INTERFACE_LINK_LIBRARIES "$<LINK_ONLY:OpenMP::OpenMP_CXX>")
endif()
