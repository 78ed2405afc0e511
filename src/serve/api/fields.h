#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/json.h"

namespace talon {

/// Reads the fields of an object in a request. Fields that are absent or null are not there. All
/// throw ApiError 400 naming the field, what was expected and what was found. Borrows the object.
class Fields {
 public:
  /// path: what names of fields begin with in messages, "talon.".
  explicit Fields(const Json& object, std::string path = "");

  const Json* find(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const;
  std::optional<long long> integer(std::string_view name, long long least, long long most) const;
  std::optional<double> number(std::string_view name, double least, double most) const;
  std::optional<std::string> text(std::string_view name) const;
  /// An array of at most `most` values.
  const Json* array(std::string_view name, std::size_t most) const;
  std::optional<Fields> object(std::string_view name) const;

  /// Refuses fields that are not among `known`.
  void allow_only(std::span<const std::string_view> known) const;
  [[noreturn]] void refuse(std::string_view name, std::string_view expected) const;
  std::string path_of(std::string_view name) const { return path_ + std::string(name); }

 private:
  const Json* object_;
  std::string path_;
};

/// What a value is, short enough for a message: 7, "text", an array of 3 values.
std::string describe(const Json& value);
[[noreturn]] void refuse_field(const std::string& path, std::string_view expected,
                               const Json& found);

/// The object that a body holds. Throws ApiError 400.
Json parse_body(const std::string& body);

}  // namespace talon
