#include "io/json_text.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "io/quote.h"

namespace talon {

namespace {

/// What the parser says of the place and of what it found there: of a text that it read to there,
/// which may be long, the end.
std::string reason_of(std::string_view said) {
  constexpr std::string_view kPlace = "parse error at ", kSyntax = ": syntax error ",
                             kRead = "last read: '";
  constexpr std::size_t kMostRead = 32;
  const std::size_t place = said.find(kPlace), syntax = said.find(kSyntax);
  if (place == said.npos || syntax == said.npos) return escape(said.substr(said.find(' ') + 1));
  const std::size_t begin = place + kPlace.size();
  std::string reason = escape(said.substr(begin, syntax - begin)) + ": ";
  said.remove_prefix(std::min(said.find("- ", syntax) + 2, said.size()));
  const std::size_t read = said.find(kRead), end = said.rfind('\'');
  if (read == said.npos) return reason + escape(said);
  const std::string_view text = said.substr(read + kRead.size(), end - read - kRead.size());
  reason += escape(said.substr(0, read)) + "last read: ";
  if (text.size() > kMostRead) reason += "...";
  return reason + quote(text.substr(text.size() - std::min(text.size(), kMostRead)));
}

}  // namespace

Json parse_json(std::string_view text, std::string_view doing) {
  constexpr std::size_t kDeepest = 64;
  std::size_t values = 0;
  std::vector<std::set<std::string>> keys;  // of the objects and arrays that are open
  const auto check = [&](int, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    const bool begins =
        event == Event::object_start || event == Event::array_start || event == Event::value;
    if (begins && ++values > kMostJsonValues) {
      fail("{}: expected at most {} values, found more", doing, kMostJsonValues);
    }
    if (event == Event::object_start || event == Event::array_start) {
      if (keys.size() == kDeepest) {
        fail("{}: expected at most {} values within each other, found more", doing, kDeepest);
      }
      keys.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      keys.pop_back();
    } else if (event == Event::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) fail("{}: key {}: found twice", doing, quote(key));
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception& error) {
    fail("{}: expected JSON text: {}", doing, reason_of(error.what()));
  }
}

}  // namespace talon
