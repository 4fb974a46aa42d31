# Library, headers, find_package(aot_runtime) and pkg-config files.
include(CMakePackageConfigHelpers)

set(AOT_INSTALL_TARGETS "")
if(AOT_INSTALL_STATIC)
  list(APPEND AOT_INSTALL_TARGETS aot_runtime_static)
endif()
if(AOT_BUILD_SHARED)
  list(APPEND AOT_INSTALL_TARGETS aot_runtime)
endif()
set(AOT_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/aot_runtime)

install(TARGETS ${AOT_INSTALL_TARGETS} EXPORT aot_runtime_targets COMPONENT development)
install(DIRECTORY cpp/include/aot DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
if(AOT_BUILD_TOOLS)
  install(TARGETS aot_run COMPONENT development)
endif()
install(EXPORT aot_runtime_targets NAMESPACE aot:: DESTINATION ${AOT_CMAKE_DIR}
  COMPONENT development)
configure_package_config_file(cmake/aot_runtimeConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/aot_runtimeConfig.cmake INSTALL_DESTINATION ${AOT_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/aot_runtimeConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
file(RELATIVE_PATH AOT_PC_TO_PREFIX
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" AOT_PC_TO_PREFIX "${AOT_PC_TO_PREFIX}")
configure_file(cmake/aot_runtime.pc.in ${CMAKE_CURRENT_BINARY_DIR}/aot_runtime.pc @ONLY)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/aot_runtimeConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/aot_runtimeConfigVersion.cmake
  DESTINATION ${AOT_CMAKE_DIR} COMPONENT development)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/aot_runtime.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
