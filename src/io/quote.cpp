#include "io/quote.h"

#include <fmt/format.h>

namespace talon {

std::string escape(std::string_view text) {
  constexpr std::size_t kLongest = 96;
  std::string out;
  for (const char c : text.substr(0, kLongest)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (text.size() > kLongest) out += "...";
  return out;
}

std::string quote(std::string_view text) { return '"' + escape(text) + '"'; }

}  // namespace talon
