#include "trace/field_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "io/json_text.h"

namespace talon {
namespace {

/// The beginning of it, in printable ASCII.
std::string shown(const Json& found) {
  constexpr std::size_t kMost = 96;
  const std::string text = found.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

}  // namespace

FieldReader::FieldReader(std::string doing, Json json)
    : doing_(std::move(doing)), json_(std::move(json)) {
  if (!json_.is_object()) fail("{}: expected an object, found {}", doing_, shown(json_));
}

FieldReader::FieldReader(const std::string& doing, const std::string& text)
    : FieldReader(doing, parse_json(text, doing)) {}

const Json& FieldReader::at(const char* key) const {
  const auto field = json_.find(key);
  if (field == json_.end()) fail("{}: expected \"{}\", found none", doing_, key);
  return *field;
}

std::int64_t FieldReader::whole(const Json& value, const char* key, std::int64_t least,
                                std::int64_t most) const {
  const bool is_small =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()});
  if (!is_small || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
    refuse(key, fmt::format("whole numbers from {} to {}", least, most), value);
  return value.get<std::int64_t>();
}

int FieldReader::count(const char* key, int least) const {
  return static_cast<int>(whole(at(key), key, least, std::numeric_limits<int>::max()));
}

double FieldReader::number(const Json& value, const char* key) const {
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    refuse(key, "finite numbers", value);
  return value.get<double>();
}

std::string FieldReader::text_or(const char* key, std::string_view fallback) const {
  if (!json_.contains(key)) return std::string(fallback);
  if (!at(key).is_string()) refuse(key, "a text");
  return at(key).get<std::string>();
}

const Json& FieldReader::list(const char* key) const {
  const Json& values = at(key);
  if (!values.is_array() || values.size() > kMostListed)
    refuse(key, fmt::format("a list of at most {}", kMostListed));
  return values;
}

void FieldReader::refuse(const char* key, std::string_view expected) const {
  refuse(key, expected, at(key));
}

void FieldReader::refuse(const char* key, std::string_view expected, const Json& found) const {
  fail("{}: field \"{}\": expected {}, found {}", doing_, key, expected, shown(found));
}

}  // namespace talon
