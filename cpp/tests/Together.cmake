# Programs of sanitizers' builds that hold several tests, each compiled as one file: three fifths of
# what a test compiles is inline functions and templates that others compile, too. A test stays a
# test of ctest's, which runs the cases of its file alone.
#
# Names that two files have for themselves are no conflict: a file lies in a namespace of its own,
# behind the headers of all. So tests' headers are at the beginning of their lines, under no #if.

# A program compiled as one file takes its time, and memory of 1 GB where they are large.
set(AOT_TESTS_TOGETHER 7)

# Lets `out` be whether the test is compiled with others: it is one file of cases, and its support is
# one that many share.
function(aot_is_together out name support)
  set(together FALSE)
  if(AOT_SANITIZE AND AOT_UNITY AND ARGC EQUAL 4)
    # fuzz has a `main` of its own; headers shows that ours need no other.
    if(support MATCHES "^aot_test_(support|cuda)$" AND NOT name MATCHES "^(fuzz|headers)$")
      set(together TRUE)
    endif()
  endif()
  set(${out} ${together} PARENT_SCOPE)
endfunction()

# Adds a test to a program that is not full. NAME_test is what to build for it.
function(aot_test_together name support source)
  set(kind ${support}_threads)
  if(name IN_LIST AOT_TESTS_WITHOUT_THREADS)
    set(kind ${support}_alone)
  endif()
  get_property(before GLOBAL PROPERTY AOT_TOGETHER_OF_${kind})
  list(LENGTH before count)
  set_property(GLOBAL APPEND PROPERTY AOT_TOGETHER_OF_${kind} ${source})
  math(EXPR number "${count} / ${AOT_TESTS_TOGETHER}")
  set(program ${kind}_${number})
  get_property(programs GLOBAL PROPERTY AOT_TOGETHER)
  if(NOT program IN_LIST programs)
    set_property(GLOBAL APPEND PROPERTY AOT_TOGETHER ${program})
    set_property(GLOBAL PROPERTY AOT_TOGETHER_SUPPORT_${program} ${support})
  endif()
  set_property(GLOBAL APPEND PROPERTY AOT_TOGETHER_IN_${program} ${source})
  add_custom_target(${name}_test)
  add_dependencies(${name}_test ${program})
  add_test(NAME ${name} COMMAND ${program} /${source})
endfunction()

# Makes the programs, once the properties of all sources are known.
function(aot_finish_together)
  get_property(programs GLOBAL PROPERTY AOT_TOGETHER)
  foreach(program IN LISTS programs)
    get_property(sources GLOBAL PROPERTY AOT_TOGETHER_IN_${program})
    get_property(support GLOBAL PROPERTY AOT_TOGETHER_SUPPORT_${program})
    set(headers "")
    set(bodies "")
    set(definitions "")
    foreach(source IN LISTS sources)
      set(file ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      file(STRINGS ${file} lines REGEX "^#include ")
      list(APPEND headers ${lines})
      get_filename_component(name ${source} NAME_WE)
      string(APPEND bodies "namespace ${name} {\n#include \"${file}\"\n}\n")
      get_source_file_property(own ${source} COMPILE_DEFINITIONS)
      if(own)
        list(APPEND definitions ${own})
      endif()
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    endforeach()
    list(REMOVE_DUPLICATES headers)
    list(JOIN headers "\n" headers)
    set(text "${headers}\n${bodies}")
    string(APPEND text "int main(int count, char** files) {\n"
      "  return count == 2 ? aot_test::run_all(files[1]) : 2;\n}\n")
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/${program}.cc)
    file(CONFIGURE OUTPUT ${unit} CONTENT "${text}" @ONLY)
    add_executable(${program} ${unit})
    target_link_libraries(${program} PRIVATE ${support})
    target_precompile_headers(${program} REUSE_FROM aot_test_support)
    if(definitions)
      list(REMOVE_DUPLICATES definitions)
      target_compile_definitions(${program} PRIVATE ${definitions})
    endif()
    if(program MATCHES "_alone_" AND NOT AOT_SANITIZE STREQUAL "thread")
      target_link_libraries(${program} PRIVATE aot_without_threads)
    endif()
  endforeach()
endfunction()
