#include "io/codec/base64.h"

#include <openssl/evp.h>

#include <limits>

namespace talon {

std::string to_base64(std::span<const std::byte> bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // and the zero that it writes
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  const std::size_t end = text.find('=');
  const std::size_t padding = end == std::string_view::npos ? 0 : text.size() - end;
  const bool is_whole = !text.empty() && text.size() % 4 == 0 && padding <= 2 &&
                        text.size() <= std::numeric_limits<int>::max() &&
                        text.find_first_not_of('=', text.size() - padding) == std::string::npos &&
                        text.find_first_of(" \t\r\n") == std::string_view::npos;
  if (!is_whole) return std::nullopt;
  std::vector<std::byte> bytes(text.size() / 4 * 3);
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(size) - padding);
  return bytes;
}

}  // namespace talon
