# Installs the build into a fresh prefix and builds a program against it, as a user would.
file(REMOVE_RECURSE ${WORK})
execute_process(
  COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component development
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR}
    -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${FLAGS}
    -DCMAKE_PREFIX_PATH=${WORK}/prefix
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build OUTPUT_QUIET
                COMMAND_ERROR_IS_FATAL ANY)
foreach(program shared static)
  execute_process(COMMAND ${WORK}/build/app_${program} /no/such.pkg OUTPUT_VARIABLE text
                  COMMAND_ERROR_IS_FATAL ANY)
  if(NOT text MATCHES "NOT_FOUND: cannot open package '/no/such.pkg'")
    message(FATAL_ERROR "app_${program} said: ${text}")
  endif()
endforeach()
file(GLOB_RECURSE pkgconfig ${WORK}/prefix/aot_runtime.pc)
file(READ ${pkgconfig} text)
if(NOT text MATCHES "Libs: -L\\$\\{libdir\\} -laot_runtime")
  message(FATAL_ERROR "aot_runtime.pc has no Libs line")
endif()
