#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace talon {

/// Reads the fields of a JSON object that a user gives. Throws Error that begins with `doing` and
/// names the field, what was expected and what was found.
class FieldReader {
 public:
  static constexpr std::size_t kMostListed = 4096;

  /// Throws Error unless `json` is an object.
  FieldReader(std::string doing, Json json);
  FieldReader(const std::string& doing, const std::string& text);
  const Json& json() const { return json_; }

  const Json& at(const char* key) const;
  std::int64_t whole(const Json& value, const char* key, std::int64_t least,
                     std::int64_t most) const;
  int count(const char* key, int least) const;
  double number(const Json& value, const char* key) const;  // finite
  double number(const char* key) const { return number(at(key), key); }
  std::string text_or(const char* key, std::string_view fallback) const;
  const Json& list(const char* key) const;  // of at most kMostListed
  template <typename Value>
  std::vector<Value> wholes(const char* key, std::int64_t least, std::int64_t most) const {
    std::vector<Value> values;
    for (const Json& value : list(key))
      values.push_back(static_cast<Value>(whole(value, key, least, most)));
    return values;
  }
  [[noreturn]] void refuse(const char* key, std::string_view expected) const;
  [[noreturn]] void refuse(const char* key, std::string_view expected, const Json& found) const;

 private:
  std::string doing_;
  Json json_;
};

}  // namespace talon
