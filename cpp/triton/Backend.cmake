# The backend as a target, with Triton's headers from a folder: the real ones, or those of the tests.
set(AOT_TRITON_DIR ${CMAKE_CURRENT_LIST_DIR})
function(aot_triton_backend target include)
  list(TRANSFORM AOT_TRITON_SOURCES PREPEND ${AOT_TRITON_DIR}/ OUTPUT_VARIABLE sources)
  add_library(${target} MODULE ${sources})
  target_include_directories(${target} SYSTEM PRIVATE ${include})
  target_link_libraries(${target} PRIVATE aot_runtime_static aot_options
    nlohmann_json::nlohmann_json Threads::Threads ${CMAKE_DL_LIBS})
  # The server's functions are found when it loads the backend.
  target_link_options(${target} PRIVATE
    -Wl,--version-script=${AOT_TRITON_DIR}/exports.map -Wl,-z,nodelete)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${AOT_TRITON_DIR}/exports.map)
endfunction()
set(AOT_TRITON_SOURCES backend.cc instance.cc model.cc requests.cc triton_types.cc)
