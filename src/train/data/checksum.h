#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace talon {

/// XXH3 (64 bits, seed 0) of bytes: about as fast as memory, so that everything can be checked each
/// time it is read.
std::uint64_t checksum(std::span<const std::byte> bytes);
std::uint64_t checksum(std::string_view text);
/// The checksum of a list of numbers, for names of things that depend on all of them.
std::uint64_t checksum(std::initializer_list<std::uint64_t> numbers);

}  // namespace talon
