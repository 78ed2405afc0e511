#include "train/data/overlap.h"

#include <algorithm>
#include <span>
#include <string>

#include "train/data/checksum.h"

namespace talon {
namespace {

constexpr std::size_t kRun = 13;

bool is_word_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
}

/// A number for each word of the text, in lower case.
std::vector<std::uint64_t> words_of(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  std::vector<std::uint64_t> words;
  for (auto at = lower.begin(); at != lower.end();) {
    const auto begin = std::find_if(at, lower.end(), is_word_byte);
    at = std::find_if_not(begin, lower.end(), is_word_byte);
    if (begin != at) words.push_back(checksum(std::string_view(begin, at)));
  }
  return words;
}

std::uint64_t run_of(std::span<const std::uint64_t> words) {
  return checksum(std::as_bytes(words));
}

}  // namespace

void Overlap::hold_out(std::string_view question) {
  const auto words = words_of(question);
  if (words.empty()) return;
  if (words.size() < kRun) shorts_.insert(run_of(words));
  for (std::size_t i = 0; i + kRun <= words.size(); ++i) {
    runs_.insert(run_of(std::span(words).subspan(i, kRun)));
  }
}

bool Overlap::touches(std::string_view text) const {
  const auto words = words_of(text);
  if (words.size() < kRun) return shorts_.contains(run_of(words));
  for (std::size_t i = 0; i + kRun <= words.size(); ++i) {
    if (runs_.contains(run_of(std::span(words).subspan(i, kRun)))) return true;
  }
  return false;
}

}  // namespace talon
