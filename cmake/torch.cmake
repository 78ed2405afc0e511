# libtorch, which only the trainer of draft heads needs. Sets Torch_FOUND.
set(TALON_TRAIN AUTO CACHE STRING "build talon-train, which needs libtorch: AUTO, ON or OFF")
if(TALON_TRAIN STREQUAL AUTO)
  find_package(Torch QUIET)
elseif(TALON_TRAIN)
  find_package(Torch REQUIRED)
endif()
if(NOT Torch_FOUND)
  message(STATUS "talon-train is not built: no libtorch (scripts/setup.sh train)")
endif()
# sentencepiece needs libprotobuf-lite, libtorch the whole libprotobuf. Their symbols have the same names: a program with both
# must find those of the latter first, or it crashes before main().
find_library(TALON_PROTOBUF protobuf)
set(TALON_FIRST_LIBRARIES "")
if(TALON_PROTOBUF)
  set(TALON_FIRST_LIBRARIES "-Wl,--push-state,--no-as-needed,${TALON_PROTOBUF},--pop-state")
endif()
