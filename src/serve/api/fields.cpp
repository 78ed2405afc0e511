#include "serve/api/fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "io/json_text.h"
#include "io/quote.h"
#include "serve/api/api_error.h"

namespace talon {
namespace {

std::string_view article_of(std::size_t count) { return count == 1 ? "value" : "values"; }

/// A whole number, written with a point (2.0) or without.
std::optional<long long> whole(const Json& value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<long long>::max())) return {};
    return static_cast<long long>(number);
  }
  if (value.is_number_integer()) return value.get<long long>();
  const double number = value.is_number_float() ? value.get<double>() : std::nan("");
  if (!(std::fabs(number) <= kExact) || number != std::floor(number)) return {};
  return static_cast<long long>(number);
}

}  // namespace

std::string describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::array:
      return fmt::format("an array of {} {}", value.size(), article_of(value.size()));
    case Json::value_t::object:
      return "an object";
    case Json::value_t::string:
      return quote(value.get_ref<const std::string&>());
    default:
      return value.dump();
  }
}

void refuse_field(const std::string& path, std::string_view expected, const Json& found) {
  throw ApiError(400, path,
                 fmt::format("{}: expected {}, found {}", path, expected, describe(found)),
                 "invalid_value");
}

Fields::Fields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {}

const Json* Fields::find(std::string_view name) const {
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

void Fields::refuse(std::string_view name, std::string_view expected) const {
  const Json* found = find(name);
  const std::string path = path_of(name);
  if (found) refuse_field(path, expected, *found);
  throw ApiError(400, path, fmt::format("{}: expected {}, found none", path, expected),
                 "missing_required_parameter");
}

std::optional<bool> Fields::flag(std::string_view name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) refuse(name, "true or false");
  return value->get<bool>();
}

std::optional<long long> Fields::integer(std::string_view name, long long least,
                                         long long most) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  const auto number = whole(*value);
  if (!number || *number < least || *number > most) {
    refuse(name, fmt::format("a whole number from {} to {}", least, most));
  }
  return number;
}

std::optional<double> Fields::number(std::string_view name, double least, double most) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= least && number <= most)) {
    refuse(name, fmt::format("a number from {} to {}", least, most));
  }
  return number;
}

std::optional<std::string> Fields::text(std::string_view name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) refuse(name, "a text");
  return value->get<std::string>();
}

const Json* Fields::array(std::string_view name, std::size_t most) const {
  const Json* value = find(name);
  if (!value) return nullptr;
  if (!value->is_array() || value->size() > most) {
    refuse(name, fmt::format("an array of at most {} values", most));
  }
  return value;
}

std::optional<Fields> Fields::object(std::string_view name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_object()) refuse(name, "an object");
  return Fields(*value, path_of(name) + ".");
}

void Fields::allow_only(std::span<const std::string_view> known) const {
  for (const auto& [name, value] : object_->items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string path = path_ + escape(name);
    throw ApiError(400, path, fmt::format("{}: expected one of {}", path, fmt::join(known, ", ")),
                   "unknown_parameter");
  }
}

Json parse_body(const std::string& body) {
  Json json;
  try {
    json = parse_json(body, "body");
  } catch (const Error& error) {
    throw ApiError(400, "", error.what(), "invalid_json");
  }
  if (!json.is_object()) {
    throw ApiError(400, "", fmt::format("body: expected an object, found {}", describe(json)),
                   "invalid_json");
  }
  return json;
}

}  // namespace talon
