#include "train/data/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace talon {

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum(std::string_view text) {
  return checksum(std::as_bytes(std::span(text.data(), text.size())));
}

std::uint64_t checksum(std::initializer_list<std::uint64_t> numbers) {
  return checksum(std::as_bytes(std::span(numbers.begin(), numbers.size())));
}

}  // namespace talon
