# AOT_SOURCES becomes files that include eight of them each, in the order of the list. Files that have
# names for themselves which others have too are in groups of their own, or alone: so is a new one that
# "redefinition" is said of.
#
# As CMake's UNITY_BUILD, but the files lie at one place for all builds of a checkout: a cache of
# compiled files goes by where a source lies.
set(AOT_GROUP_plans
  cpp/src/cuda/input_copies.cc cpp/src/json_text.cc cpp/src/plan.cc)
set(AOT_GROUP_programs
  cpp/src/cuda/timeline.cc cpp/src/program.cc cpp/src/program_flow.cc cpp/src/safetensors.cc
  cpp/src/verify/polynomial.cc)
set(AOT_GROUP_declarations cpp/src/verify/declaration.cc cpp/src/verify/launch_rules.cc)
set(AOT_ALONE cpp/src/sha256.cc)

set(groups plans programs declarations)
list(REMOVE_ITEM AOT_SOURCES
  ${AOT_GROUP_plans} ${AOT_GROUP_programs} ${AOT_GROUP_declarations} ${AOT_ALONE})
while(AOT_SOURCES)
  list(LENGTH groups name)
  list(APPEND groups ${name})
  list(SUBLIST AOT_SOURCES 0 8 AOT_GROUP_${name})
  list(REMOVE_ITEM AOT_SOURCES ${AOT_GROUP_${name}})
endwhile()
set(AOT_SOURCES ${AOT_ALONE})
foreach(group IN LISTS groups)
  set(text "")
  foreach(source IN LISTS AOT_GROUP_${group})
    string(APPEND text "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"\n")
  endforeach()
  set(file ${CMAKE_CURRENT_SOURCE_DIR}/.cache/unity/${group}.cc)
  file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
  list(APPEND AOT_SOURCES ${file})
endforeach()
