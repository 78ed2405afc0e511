# What libtalon is made of is compiled once, for it and for the program: position independent, with symbols that only its own files
# see, so that calls stay direct.
function(talon_in_library target)
  if(TALON_LIBRARY OR TALON_PYTHON)
    target_compile_options(${target} PRIVATE -fPIC -fvisibility=hidden)
  endif()
endfunction()

# Headers that nearly every file reads are compiled once: talon_headers(NAME headers...
# DEPENDS libs...) makes such a set, talon_precompile(TARGET NAME) uses it. Never for talon_backend: its kernels have flags of
# their own and must share no inline function with other files. Fuzzing builds without, so that a file that misses an include
# is found out.
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
  if(NOT TALON_FUZZ)
    target_precompile_headers(${target} REUSE_FROM ${name})
    # GCC 12 forgets then what is a system header, and warns about its own std::string; a file takes a second less with them.
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endfunction()

# talon_unity(TARGET): up to twelve files are compiled as one, since what a unit includes costs as much as three files.
# Two files of one target may therefore not give the same name to different things, even in namespaces without names; tests stand in
# namespaces of their own (talon::x_test). A file with options of its own and those with SKIP_UNITY_BUILD_INCLUSION are compiled
# alone; fuzzing builds file by file, so that a file that misses an include is found out.
function(talon_unity target)
  if(TALON_FUZZ)
    return()
  endif()
  get_target_property(files ${target} SOURCES)
  list(SORT files)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # an included file that is no header
  list(LENGTH files all)
  math(EXPR groups "(${all} + 11) / 12")
  set(count 0)
  foreach(file ${files})
    math(EXPR group "${count} * ${groups} / ${all}")
    set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${group})
    math(EXPR count "${count} + 1")
  endforeach()
endfunction()

# The command line and the bench but for its probes wait for files, forwards and people: optimised less, they are compiled in three
# quarters of the time.
set(TALON_COLD_OPTIONS -O1)
# Tests run once for each time that they are compiled.
set(TALON_TEST_OPTIONS -O0)

# talon_layer(NAME FOLDER libs...): notes that the files of src/FOLDER are the library talon_NAME and may include what libs have.
# talon_write_layers() writes all that was noted, by folder, into layers.txt, which tests/style compares with the includes.
function(talon_layer name folder)
  set_property(GLOBAL PROPERTY TALON_FOLDER_talon_${name} ${folder})
  set_property(GLOBAL APPEND PROPERTY TALON_LAYERS ${folder})
  set_property(GLOBAL APPEND PROPERTY TALON_LAYER_${folder} ${ARGN})
endfunction()
function(talon_write_layers)
  get_property(layers GLOBAL PROPERTY TALON_LAYERS)
  list(REMOVE_DUPLICATES layers)
  set(text "")
  foreach(layer ${layers})
    get_property(libraries GLOBAL PROPERTY TALON_LAYER_${layer})
    string(APPEND text "${layer}:")
    foreach(library ${libraries})
      get_property(folder GLOBAL PROPERTY TALON_FOLDER_${library})
      if(folder)
        string(APPEND text " ${folder}")
      endif()
    endforeach()
    string(APPEND text "\n")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/layers.txt CONTENT "${text}" @ONLY)
endfunction()

# talon_folder(NAME [FOLDER folder] [HEADERS set] [SLOW patterns...] [HEAVY patterns...] [SECONDS n] DEPENDS libs...) makes the library
# talon_NAME of all sources in src/NAME, or in src/FOLDER (recursively) and, when tests are built, one test program NAME_test of all
# its x_test.cpp files, which stand beside what they test.
function(talon_folder name)
  cmake_parse_arguments(ARG "" "FOLDER;HEADERS;SECONDS" "DEPENDS;EXCLUDE;SLOW;HEAVY" ${ARGN})
  if(NOT ARG_HEADERS)
    set(ARG_HEADERS talon_library_headers)
  endif()
  if(NOT ARG_FOLDER)
    set(ARG_FOLDER ${name})
  endif()
  talon_layer(${name} ${ARG_FOLDER} ${ARG_DEPENDS})
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
    if(ARG_HEADERS STREQUAL talon_library_headers)
      talon_in_library(talon_${name})
    endif()
    target_include_directories(talon_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(talon_${name} PUBLIC ${ARG_DEPENDS})
    if(NOT name STREQUAL backend)
      talon_precompile(talon_${name} ${ARG_HEADERS})
    endif()
    talon_unity(talon_${name})
  else()
    add_library(talon_${name} INTERFACE)
    target_include_directories(talon_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(talon_${name} INTERFACE ${ARG_DEPENDS})
  endif()
  if(TALON_TESTS AND tests)
    talon_test(${name}_test SOURCES ${tests} DEPENDS talon_${name} SLOW ${ARG_SLOW} HEAVY ${ARG_HEAVY}
      SECONDS ${ARG_SECONDS})
  endif()
endfunction()

# Where tests, and what they share, find their data and models.
set(TALON_TEST_DEFINITIONS TALON_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data" TALON_DOWNLOADS="${PROJECT_SOURCE_DIR}/downloads")

# talon_test_support(NAME SOURCES files... DEPENDS libs...): a library of what several test programs share.
function(talon_test_support name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} talon_test_main)
  target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(${name} PUBLIC ${TALON_TEST_DEFINITIONS})
  target_compile_options(${name} PRIVATE ${TALON_TEST_OPTIONS})
  talon_precompile(${name} talon_test_headers)
  talon_unity(${name})
endfunction()

# talon_test(NAME SOURCES files... DEPENDS libs...): a GoogleTest program. Tests read their data below TALON_TEST_DATA
# (tests/data) and downloaded models below TALON_DOWNLOADS, and skip without the latter. ctest knows it three ways, by label:
#   whole: Whole.NAME, all of it in one process, as `make test` runs it.
#   quick: Quick.NAME, without the tests that SLOW patterns name, as `make quick` runs it; those of HEAVY patterns run with
#     sanitizers only.
#   case: one for each TEST, for `ctest -R`.
# SECONDS n: roughly what all of it takes, where that is long: such programs begin first.
# HEADERS NONE: without the common precompiled headers. Those of the trainer, which its tests read, ask for files that are optimised.
# HAS_LONG: tests of suites named *Long get the label long alone, which `make test` leaves out.
function(talon_test name)
  cmake_parse_arguments(ARG "HAS_LONG" "HEADERS;SECONDS" "SOURCES;DEPENDS;SLOW;HEAVY" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} talon_test_main)
  target_compile_definitions(${name} PRIVATE ${TALON_TEST_DEFINITIONS})
  if(TALON_SANITIZE)
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)  # of what is tested, not of tests: half their compile time
  endif()
  if(ARG_HEADERS)
    target_compile_options(${name} PRIVATE ${TALON_COLD_OPTIONS})
  else()
    target_compile_options(${name} PRIVATE ${TALON_TEST_OPTIONS})
    talon_precompile(${name} talon_test_headers)
  endif()
  talon_unity(${name})
  set(discovery DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES)
  set(long "")
  if(ARG_HAS_LONG)
    set(long "*Long.*")
    gtest_discover_tests(${name} TEST_FILTER "${long}" ${discovery} PROPERTIES TIMEOUT 3600 LABELS long)
  endif()
  gtest_discover_tests(${name} TEST_FILTER "-${long}" ${discovery} PROPERTIES TIMEOUT 900 LABELS case)
  add_test(NAME Whole.${name} COMMAND ${name} --gtest_brief=1 --gtest_filter=-${long})
  set_tests_properties(Whole.${name} PROPERTIES TIMEOUT 1800 LABELS whole)
  if(ARG_SECONDS)
    set_tests_properties(Whole.${name} PROPERTIES COST ${ARG_SECONDS})
  endif()
  if(NOT TALON_SANITIZE)
    list(APPEND ARG_SLOW ${ARG_HEAVY})
  endif()
  list(JOIN ARG_SLOW ":" slow)
  if(NOT slow STREQUAL "*")
    add_test(NAME Quick.${name} COMMAND ${name} --gtest_brief=1 --gtest_filter=-${long}:${slow})
    set(most_seconds 1200)
    if(TALON_SANITIZE MATCHES thread)
      set(most_seconds 3600)
    endif()
    set_tests_properties(Quick.${name} PROPERTIES TIMEOUT ${most_seconds} LABELS quick)
  endif()
endfunction()
