#include "cli/pull/refusal_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/quote.h"
#include "net/http_transfer.h"

namespace talon {
namespace {

constexpr int kTooManyRequests = 429;
constexpr int kUnavailable = 503;

/// The number at the beginning of `text`; empty: there is none that can be meant.
std::string seconds_in(std::string_view text) {
  constexpr std::size_t kMostDigits = 6;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  return digits <= kMostDigits ? std::string(text.substr(0, digits)) : std::string();
}

/// More of it than escape() shows at once: what to do stands at the end of long ones.
std::string shown_words(std::string_view words) {
  constexpr std::size_t kPiece = 96;
  constexpr std::size_t kPieces = 4;
  std::string shown;
  for (std::size_t i = 0; i < kPieces && i * kPiece < words.size(); ++i) {
    shown += escape(words.substr(i * kPiece, kPiece));
  }
  return shown + (words.size() > kPieces * kPiece ? "..." : "");
}

}  // namespace

void RefusalWords::read(std::string_view line) {
  if (line.starts_with("HTTP/")) *this = RefusalWords();
  const HttpHeader header = parse_header(line);
  if (header.name == "x-error-message") why_ = header.value;
  if (header.name == "x-error-code") code_ = header.value;
  if (header.name == "retry-after") {
    if (const std::string seconds = seconds_in(header.value); !seconds.empty()) seconds_ = seconds;
  }
  if (header.name == "ratelimit" && seconds_.empty()) {
    constexpr std::string_view kLeft = ";r=0;t=";
    const std::size_t left = header.value.find(kLeft);
    if (left != std::string::npos) seconds_ = seconds_in(header.value.substr(left + kLeft.size()));
  }
}

std::string RefusalWords::text(int status) const {
  std::string text;
  if (!why_.empty()) text = fmt::format("; the server says \"{}\"", shown_words(why_));
  if (const auto left = seconds(status)) text += fmt::format("; ask again in {} s", *left);
  return text;
}

std::optional<int> RefusalWords::seconds(int status) const {
  const bool is_for_now = status == kTooManyRequests || status == kUnavailable;
  if (!is_for_now || seconds_.empty()) return {};
  return std::stoi(seconds_);
}

}  // namespace talon
