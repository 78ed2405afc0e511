#include "model/config/config_keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace talon {
namespace {

constexpr std::size_t kShownLength = 60;  // of a found value, in messages

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kShownLength) text = text.substr(0, kShownLength) + "...";
  return text;
}

/// A whole number, written as an integer or as a float with nothing after the point.
std::optional<std::int64_t> whole(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > std::uint64_t{INT64_MAX}) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (!(std::fabs(number) < 1e15) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace

ConfigKeys::ConfigKeys(const Json& object, std::string where)
    : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) {
    fail("read {}: expected an object of keys, found {}", where_, shown(object));
  }
}

const Json* ConfigKeys::find(std::string_view key) const {
  const auto found = object_->find(std::string(key));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool ConfigKeys::has(std::string_view key) const { return find(key) != nullptr; }

void ConfigKeys::refuse(std::string_view key, std::string_view expected) const {
  const Json* value = find(key);
  fail("read {}: \"{}\": expected {}, found {}", where_, key, expected,
       value ? shown(*value) : "nothing");
}

const Json& ConfigKeys::require(std::string_view key, std::string_view expected) const {
  const Json* value = find(key);
  if (!value) refuse(key, expected);
  return *value;
}

int ConfigKeys::integer(std::string_view key, int low, int high) const {
  const std::string expected = fmt::format("an integer in {}..{}", low, high);
  const auto value = whole(require(key, expected));
  if (!value || *value < low || *value > high) refuse(key, expected);
  return static_cast<int>(*value);
}

int ConfigKeys::integer_or(std::string_view key, int low, int high, int otherwise) const {
  return has(key) ? integer(key, low, high) : otherwise;
}

double ConfigKeys::number(std::string_view key, double low, double high) const {
  const std::string expected = fmt::format("a number in {}..{}", low, high);
  const Json& value = require(key, expected);
  if (!value.is_number()) refuse(key, expected);
  const double number = value.get<double>();
  if (!(number >= low && number <= high)) refuse(key, expected);
  return number;
}

double ConfigKeys::number_or(std::string_view key, double low, double high,
                             double otherwise) const {
  return has(key) ? number(key, low, high) : otherwise;
}

bool ConfigKeys::flag_or(std::string_view key, bool otherwise) const {
  const Json* value = find(key);
  if (!value) return otherwise;
  if (!value->is_boolean()) refuse(key, "true or false");
  return value->get<bool>();
}

std::string ConfigKeys::text(std::string_view key) const {
  const Json& value = require(key, "a text");
  if (!value.is_string()) refuse(key, "a text");
  return value.get<std::string>();
}

std::string ConfigKeys::text_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}

void ConfigKeys::expect_only(std::initializer_list<std::string_view> names) const {
  for (const auto& [key, value] : object_->items()) {
    if (std::ranges::find(names, key) == names.end())
      refuse(key, fmt::format("none but {}", fmt::join(names, ", ")));
  }
}

std::vector<TokenId> ConfigKeys::tokens(std::string_view key, int vocabulary) const {
  std::vector<TokenId> ids;
  const Json* value = find(key);
  if (!value) return ids;
  const std::string expected = fmt::format("token ids below {}", vocabulary);
  const auto add = [&](const Json& item) {
    const auto id = whole(item);
    if (!id || *id < 0 || *id >= vocabulary) refuse(key, expected);
    ids.push_back(static_cast<TokenId>(*id));
  };
  if (value->is_array()) {
    for (const Json& item : *value) add(item);
  } else {
    add(*value);
  }
  return ids;
}

/// read(keys) for each element, which stands below "value" there.
template <typename Read>
void ConfigKeys::each(std::string_view key, std::size_t count, const Read& read) const {
  const Json* value = find(key);
  if (!value || (value->is_array() && value->empty())) return;
  if (value->is_array() && value->size() != count) refuse(key, fmt::format("{} values", count));
  for (std::size_t i = 0; i < count; ++i) {
    const Json item = {{"value", value->is_array() ? (*value)[i] : *value}};
    read(ConfigKeys(item, fmt::format("{} \"{}\"", where_, key)));
  }
}

std::vector<int> ConfigKeys::integers(std::string_view key, int low, int high,
                                      std::size_t count) const {
  std::vector<int> values;
  each(key, count,
       [&](const ConfigKeys& item) { values.push_back(item.integer("value", low, high)); });
  return values;
}

std::vector<float> ConfigKeys::numbers(std::string_view key, double low, double high,
                                       std::size_t count) const {
  std::vector<float> values;
  each(key, count, [&](const ConfigKeys& item) {
    values.push_back(static_cast<float>(item.number("value", low, high)));
  });
  return values;
}

std::vector<bool> ConfigKeys::flags(std::string_view key, std::size_t count) const {
  std::vector<bool> values;
  each(key, count, [&](const ConfigKeys& item) {
    const bool number = item.find("value") && item.find("value")->is_number();
    values.push_back(number ? item.integer("value", 0, 1) == 1 : item.flag_or("value", false));
  });
  return values;
}

std::vector<std::string> ConfigKeys::texts(std::string_view key, std::size_t count) const {
  std::vector<std::string> values;
  each(key, count, [&](const ConfigKeys& item) { values.push_back(item.text("value")); });
  return values;
}

std::optional<ConfigKeys> ConfigKeys::object(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) refuse(key, "an object");
  return ConfigKeys(*value, fmt::format("{} \"{}\"", where_, key));
}

}  // namespace talon
