#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "c/status.h"

namespace talon {

// Structs of the C interface, whose first field is their size: programs may know fewer fields than
// the library, or more.

/// Of a struct in the first version of the binary interface: no program knows a smaller one.
template <typename Struct>
inline constexpr std::size_t kFirstSize = sizeof(Struct);
template <>
inline constexpr std::size_t kFirstSize<talon_text_options> = offsetof(talon_text_options,
                                                                       message_entries);
template <>
inline constexpr std::size_t kFirstSize<talon_request> = offsetof(talon_request, expected);
template <>
inline constexpr std::size_t kFirstSize<talon_speculator_options> =
    offsetof(talon_speculator_options, log);
/// No version has a larger one: beyond it a size was never set.
inline constexpr std::size_t kMostStructBytes = 4096;

/// Throws UsageError naming `argument` for a size that no version has.
template <typename Struct>
void check_size(std::size_t size, const std::string& argument) {
  require(size >= kFirstSize<Struct> && size <= kMostStructBytes, argument + "->size",
          "the size of the struct, as its maker sets it", size);
}

/// `defaults` with what `given` says; fields that the library does not know must be 0.
template <typename Struct>
Struct read_struct(const Struct* given, Struct defaults, const std::string& argument) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (!given) return defaults;
  const std::size_t size = given->size;
  check_size<Struct>(size, argument);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  const std::size_t known = std::min(size, sizeof(Struct));
  require(std::all_of(bytes + known, bytes + size, [](unsigned char byte) { return byte == 0; }),
          argument, "only fields that this version of the library knows",
          fmt::format("a value among the last {} bytes", size - known));
  std::memcpy(&defaults, given, known);
  return defaults;
}

/// Fills what the caller has room for.
template <typename Struct>
void write_struct(Struct* out, Struct value, const std::string& argument) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  const std::size_t size = require_pointer(out, argument, "a struct to fill").size;
  check_size<Struct>(size, argument);
  value.size = size;
  auto* bytes = reinterpret_cast<unsigned char*>(out);
  const std::size_t known = std::min(size, sizeof(Struct));
  std::memcpy(bytes, &value, known);
  std::memset(bytes + known, 0, size - known);
}

/// Fills a struct whose size field is not set yet.
template <typename Struct>
void init_struct(Struct* out, std::size_t size, const Struct& defaults) {
  require(size >= kFirstSize<Struct> && size <= kMostStructBytes, "size", "the size of the struct",
          size);
  require_pointer(out, "options", "a struct to fill").size = size;
  write_struct(out, defaults, "options");
}

}  // namespace talon
