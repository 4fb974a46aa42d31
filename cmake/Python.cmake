# The Python loader's native module, aot_runtime._native.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
if(NOT pybind11_DIR)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -m pybind11 --cmakedir
    OUTPUT_VARIABLE pybind11_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(PYBIND11_FINDPYTHON ON)
find_package(pybind11 2.13 REQUIRED CONFIG)

pybind11_add_module(_native MODULE
  runtime/aot_runtime/src/module.cc
  runtime/aot_runtime/src/allocator.cc
  runtime/aot_runtime/src/arrays.cc
  runtime/aot_runtime/src/exchange.cc
  runtime/aot_runtime/src/log.cc
  runtime/aot_runtime/src/operators.cc
  runtime/aot_runtime/src/options.cc
  runtime/aot_runtime/src/trace.cc)
target_link_libraries(_native PRIVATE aot_runtime_static aot_options)
target_link_options(_native PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,nodelete)
install(TARGETS _native LIBRARY DESTINATION aot_runtime COMPONENT python)
install(DIRECTORY cpp/include/ DESTINATION aot_runtime/include COMPONENT python)
# Generated kernels include it; in a checkout the compiler finds it where it is.
install(FILES cpp/include/aot/kernel_abi.h DESTINATION aot/backends/cpp/include/aot
  COMPONENT python)

option(AOT_PYTHON_IN_PLACE "Put the module beside its Python sources" OFF)
if(AOT_PYTHON_IN_PLACE)
  set_target_properties(_native PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/runtime/aot_runtime)
endif()
