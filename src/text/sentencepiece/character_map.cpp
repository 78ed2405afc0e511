#include "text/sentencepiece/character_map.h"

#include <cstdint>
#include <cstring>

#include "core/error.h"

namespace talon {
namespace {

/// Of a text that characters become. Unicode's own rules give 33 bytes at most; texts without a
/// bound would make gigabytes of a prompt.
constexpr std::size_t kLongestMapped = 256;

/// One unit of a darts-clone double array.
struct Unit {
  std::uint32_t bits;

  bool is_value() const { return bits >> 31 != 0; }
  bool has_leaf() const { return (bits >> 8 & 1) != 0; }
  std::uint32_t value() const { return bits & 0x7FFFFFFF; }
  std::uint32_t offset() const { return bits >> 10 << ((bits & 1U << 9) >> 6); }
};

}  // namespace

void check_character_map(std::string_view map, std::string_view doing) {
  std::uint32_t trie_bytes = 0;
  if (map.size() < sizeof trie_bytes) {
    fail("{}: precompiled_charsmap: expected at least 4 bytes, found {}", doing, map.size());
  }
  std::memcpy(&trie_bytes, map.data(), sizeof trie_bytes);
  map.remove_prefix(sizeof trie_bytes);
  if (trie_bytes == 0 || trie_bytes % sizeof(Unit) != 0 || trie_bytes >= map.size()) {
    fail("{}: precompiled_charsmap: expected a trie that fits {} bytes, found one of {} bytes",
         doing, map.size(), trie_bytes);
  }
  const std::string_view texts = map.substr(trie_bytes);
  if (texts.back() != '\0') {
    fail("{}: precompiled_charsmap: expected a zero byte after the last text", doing);
  }
  const std::size_t units = trie_bytes / sizeof(Unit);
  const auto unit_at = [&](std::size_t index) {
    Unit unit{};
    std::memcpy(&unit, map.data() + index * sizeof(Unit), sizeof unit);
    return unit;
  };
  for (std::size_t i = 0; i < units; ++i) {
    const Unit unit = unit_at(i);
    if (unit.is_value()) continue;
    const std::size_t children = i ^ unit.offset();
    if ((children | 0xFF) >= units) {
      fail("{}: precompiled_charsmap: unit {}: expected children below {}, found {}", doing, i,
           units, children);
    }
    if (!unit.has_leaf()) continue;
    const std::size_t text = unit_at(children).value();
    if (text >= texts.size()) {
      fail("{}: precompiled_charsmap: unit {}: expected a text below {}, found {}", doing, i,
           texts.size(), text);
    }
    if (texts.substr(text, kLongestMapped + 1).find('\0') == std::string_view::npos) {
      fail("{}: precompiled_charsmap: unit {}: expected a text of at most {} bytes, found {}",
           doing, i, kLongestMapped, texts.find('\0', text) - text);
    }
  }
}

}  // namespace talon
