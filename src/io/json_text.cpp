#include "io/json_text.h"

#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "io/quote.h"

namespace talon {

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
    fail("{}: expected JSON text: {}", doing, escape(error.what()));
  }
}

}  // namespace talon
