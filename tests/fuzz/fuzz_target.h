#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>

#include "core/error.h"

/// The function that libFuzzer and smoke.cpp call. Anything but a normal return is a finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace talon::fuzz {

/// Runs `action`; an Error is an ordinary answer to bad input, every other exception a finding.
template <typename Action>
void run(Action&& action) {
  try {
    action();
  } catch (const Error&) {
  }
}

inline std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace talon::fuzz
