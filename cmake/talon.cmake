# Headers that nearly every file reads are compiled once: talon_headers(NAME headers...
# DEPENDS libs...) makes such a set, talon_precompile(TARGET NAME) uses it. Never for talon_backend: its kernels have flags of
# their own and must share no inline function with other files. Sanitizers and fuzzing build without, so that a file that
# misses an include is found out.
set(TALON_COMMON_HEADERS <algorithm> <cmath> <filesystem> <functional> <map> <memory> <optional> <span> <string> <variant>
  <vector> <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)
function(talon_headers name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE fmt::fmt nlohmann_json::nlohmann_json ${ARG_DEPENDS})
  target_precompile_headers(${name} PRIVATE ${TALON_COMMON_HEADERS} ${ARG_UNPARSED_ARGUMENTS})
endfunction()
function(talon_precompile target name)
  if(NOT TALON_SANITIZE AND NOT TALON_FUZZ)
    target_precompile_headers(${target} REUSE_FROM ${name})
    # GCC 12 forgets then what is a system header, and warns about its own std::string.
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endfunction()

# The command line, the bench but for its probes, and what tests compile themselves wait for files, forwards and people: optimised
# less, they are compiled in three quarters of the time.
set(TALON_COLD_OPTIONS -O1)

# talon_folder(NAME [FOLDER folder] [HEADERS set] DEPENDS libs...) makes the library talon_NAME of all sources in src/NAME, or in
# src/FOLDER (recursively) and, when
# tests are built, one test program NAME_test of all its x_test.cpp files, which stand beside what they test.
function(talon_folder name)
  cmake_parse_arguments(ARG "" "FOLDER;HEADERS" "DEPENDS;EXCLUDE" ${ARGN})
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS talon_library_headers)
  endif()
  if(NOT ARG_FOLDER)
    set(ARG_FOLDER ${name})
  endif()
  set(folder ${PROJECT_SOURCE_DIR}/src/${ARG_FOLDER})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCLUDE}")
  endif()
  if(sources)
    add_library(talon_${name} STATIC ${sources})
    target_include_directories(talon_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(talon_${name} PUBLIC ${ARG_DEPENDS})
    if(NOT name STREQUAL backend)
      talon_precompile(talon_${name} ${ARG_HEADERS})
    endif()
  else()
    add_library(talon_${name} INTERFACE)
    target_include_directories(talon_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(talon_${name} INTERFACE ${ARG_DEPENDS})
  endif()
  if(TALON_TESTS AND tests)
    talon_test(${name}_test SOURCES ${tests} DEPENDS talon_${name})
  endif()
endfunction()

# talon_test(NAME SOURCES files... DEPENDS libs...): a GoogleTest program; every TEST is one ctest case. Tests read
# their data below TALON_TEST_DATA (tests/data) and downloaded models below TALON_DOWNLOADS, and skip without the latter.
# HEADERS NONE: without the common precompiled headers.
# HAS_LONG: tests of suites named *Long get the label long alone, which `make test` leaves out.
function(talon_test name)
  cmake_parse_arguments(ARG "HAS_LONG" "HEADERS" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    TALON_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data" TALON_DOWNLOADS="${PROJECT_SOURCE_DIR}/downloads")
  target_compile_options(${name} PRIVATE ${TALON_COLD_OPTIONS})
  if(NOT ARG_HEADERS)
    talon_precompile(${name} talon_test_headers)
  endif()
  set(quick "")
  if(ARG_HAS_LONG)
    set(quick TEST_FILTER "-*Long.*")
    gtest_discover_tests(${name} TEST_FILTER "*Long.*" DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 3600 LABELS long)
  endif()
  gtest_discover_tests(${name} ${quick} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 900 LABELS "${ARG_LABELS}")
endfunction()
