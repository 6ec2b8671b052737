# cmake --install: libraries, headers and the package that find_package(tessera CONFIG) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tessera")

install(TARGETS ${TESSERA_LIBRARIES} tessera_all EXPORT tesseraTargets)
install(
  EXPORT tesseraTargets
  NAMESPACE tessera::
  DESTINATION "${package_dir}")

list(JOIN TESSERA_WRITE_PUBLIC_HEADERS "\" \"" command)
install(CODE "execute_process(COMMAND \"${command}\" COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY "${TESSERA_PUBLIC_HEADERS}/tessera" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/tools/cmake/tesseraConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/tesseraConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tesseraConfig.cmake" "${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/tools/cmake/FindxxHash.cmake"
              "${PROJECT_SOURCE_DIR}/tools/cmake/FindoneDNN.cmake" DESTINATION "${package_dir}")
