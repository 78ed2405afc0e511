#include "text/ranked/byte_level.h"

#include <array>
#include <cstddef>

namespace talon {
namespace {

using ByteSpellings = std::array<std::string, 256>;

ByteSpellings spellings_of_bytes() {
  const auto printable = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  };
  ByteSpellings spellings;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int code = printable(byte) ? byte : next++;
    std::string& spelling = spellings[static_cast<std::size_t>(byte)];
    if (code >= 0x80) spelling += static_cast<char>(0xC0 | code >> 6);
    spelling += static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3F));
  }
  return spellings;
}

}  // namespace

std::string spell_bytes(std::string_view bytes) {
  static const ByteSpellings kSpellings = spellings_of_bytes();
  std::string text;
  for (const char byte : bytes) text += kSpellings[static_cast<unsigned char>(byte)];
  return text;
}

}  // namespace talon
