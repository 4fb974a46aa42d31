# nlohmann/json: headers only, from the system or from the PyPI package `nlohmann-json`.
find_package(nlohmann_json 3.10 QUIET CONFIG)
if(NOT nlohmann_json_FOUND)
  find_package(Python COMPONENTS Interpreter QUIET)
  if(Python_FOUND)
    execute_process(
      COMMAND ${Python_EXECUTABLE} -c
        "import importlib.util as u; print(u.find_spec('nlohmann_json').submodule_search_locations[0])"
      OUTPUT_VARIABLE AOT_NLOHMANN_PACKAGE OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  find_path(AOT_NLOHMANN_INCLUDE nlohmann/json.hpp HINTS ${AOT_NLOHMANN_PACKAGE}/include)
  if(NOT AOT_NLOHMANN_INCLUDE)
    message(FATAL_ERROR "nlohmann/json.hpp not found. `make setup` brings it: activate its "
                        "environment (. .venv/bin/activate). Or install the Debian package "
                        "nlohmann-json3-dev or the PyPI package nlohmann-json, or set "
                        "AOT_NLOHMANN_INCLUDE.")
  endif()
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE ${AOT_NLOHMANN_INCLUDE})
endif()
