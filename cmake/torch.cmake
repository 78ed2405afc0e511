# libtorch, which only the trainer of draft heads needs. Sets Torch_FOUND.
set(TALON_TRAIN AUTO CACHE STRING "build talon-train, which needs libtorch: AUTO, ON or OFF")
if(TALON_TRAIN STREQUAL AUTO)
  # AddressSanitizer refuses modules that find their own symbols first (src/text/sentencepiece/piece_encoder_apart.cpp).
  if(NOT TALON_SANITIZE)
    find_package(Torch QUIET)
  endif()
elseif(TALON_TRAIN)
  find_package(Torch REQUIRED)
endif()
if(NOT Torch_FOUND)
  message(STATUS "talon-train is not built (make trainer builds it, and installs libtorch)")
endif()
# talon_with_torch(TARGET): a program that links libtorch. It loads sentencepiece as a module (src/text/CMakeLists.txt), which stands
# beside it or in the build folder.
function(talon_with_torch target)
  set_target_properties(${target} PROPERTIES TALON_TORCH ON BUILD_RPATH "$ORIGIN;${CMAKE_BINARY_DIR}")
endfunction()
