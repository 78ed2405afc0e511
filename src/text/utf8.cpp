#include "text/utf8.h"

namespace talon {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Part { character, ill_formed, unfinished };

struct Step {
  Part part;
  std::size_t bytes;
};

/// How many bytes follow a lead byte, and what the first of them may be (Unicode, table 3-7).
struct Lead {
  int following;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {0};
  if (byte < 0xC2) return {-1};
  if (byte < 0xE0) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte < 0xF0) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte < 0xF4) return {3};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {-1};
}

/// The first character or ill-formed part of a text that is not empty.
Step step(std::string_view text) {
  Lead lead = lead_of(static_cast<unsigned char>(text[0]));
  if (lead.following < 0) return {Part::ill_formed, 1};
  for (std::size_t i = 1; i <= static_cast<std::size_t>(lead.following); ++i) {
    if (i == text.size()) return {Part::unfinished, i};
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < lead.low || byte > lead.high) return {Part::ill_formed, i};
    lead.low = 0x80;
    lead.high = 0xBF;
  }
  return {Part::character, static_cast<std::size_t>(lead.following) + 1};
}

}  // namespace

std::size_t append_well_formed(std::string& out, std::string_view text) {
  std::size_t begin = 0;  // of the well-formed run not yet copied
  std::size_t at = 0;
  const auto copy_run = [&] { out.append(text.substr(begin, at - begin)); };
  while (at < text.size()) {
    const Step next = step(text.substr(at));
    if (next.part == Part::unfinished) break;
    if (next.part == Part::ill_formed) {
      copy_run();
      out.append(kReplacement);
      begin = at + next.bytes;
    }
    at += next.bytes;
  }
  copy_run();
  return at;
}

std::string replace_ill_formed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  if (append_well_formed(out, text) < text.size()) out.append(kReplacement);
  return out;
}

std::size_t well_formed_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Step next = step(text.substr(at));
    if (next.part != Part::character) break;
    at += next.bytes;
  }
  return at;
}

bool is_well_formed(std::string_view text) { return well_formed_bytes(text) == text.size(); }

}  // namespace talon
