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
  ${AOT_PYTHON_DIR}/src/module.cc
  ${AOT_PYTHON_DIR}/src/allocator.cc
  ${AOT_PYTHON_DIR}/src/arrays.cc
  ${AOT_PYTHON_DIR}/src/caller.cc
  ${AOT_PYTHON_DIR}/src/exchange.cc
  ${AOT_PYTHON_DIR}/src/log.cc
  ${AOT_PYTHON_DIR}/src/operators.cc
  ${AOT_PYTHON_DIR}/src/options.cc
  ${AOT_PYTHON_DIR}/src/trace.cc)
target_link_libraries(_native PRIVATE aot_runtime_static aot_options)
set(AOT_NATIVE_MAP ${AOT_PYTHON_DIR}/src/native.map)
set_target_properties(_native PROPERTIES LINK_DEPENDS ${AOT_NATIVE_MAP})
target_link_options(_native PRIVATE -Wl,--version-script=${AOT_NATIVE_MAP} -Wl,-z,nodelete)
install(TARGETS _native LIBRARY DESTINATION aot_runtime COMPONENT python)
option(AOT_PYTHON_IN_PLACE "Put the module beside its Python sources" OFF)
if(AOT_PYTHON_IN_PLACE)
  set_target_properties(_native PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${AOT_PYTHON_DIR})
endif()
