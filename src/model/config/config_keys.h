#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "io/json.h"

namespace talon {

/// Reads the keys of a model's metadata. Every value is checked before it is used; an Error names
/// the file, the key, what was expected and what was found. A key whose value is null counts as
/// absent.
class ConfigKeys {
 public:
  /// Borrows `object`. `where` is the file, for messages. Throws Error unless `object` is a JSON
  /// object.
  ConfigKeys(const Json& object, std::string where);

  /// The file, as messages name it.
  const std::string& where() const { return where_; }
  bool has(std::string_view key) const;
  /// Whole numbers in [low, high].
  int integer(std::string_view key, int low, int high) const;
  int integer_or(std::string_view key, int low, int high, int otherwise) const;
  /// Finite numbers in [low, high].
  double number(std::string_view key, double low, double high) const;
  double number_or(std::string_view key, double low, double high, double otherwise) const;
  bool flag_or(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  /// An integer or a list of them, each a token id below `vocabulary`; empty when absent.
  std::vector<TokenId> tokens(std::string_view key, int vocabulary) const;
  /// `count` values, each as its single reader has it; empty when absent or an empty list. A value
  /// that is no list counts `count` times.
  std::vector<int> integers(std::string_view key, int low, int high, std::size_t count) const;
  std::vector<float> numbers(std::string_view key, double low, double high,
                             std::size_t count) const;
  std::vector<bool> flags(std::string_view key, std::size_t count) const;
  std::vector<std::string> texts(std::string_view key, std::size_t count) const;
  /// Refuses, by its name, a key that is none of these.
  void expect_only(std::initializer_list<std::string_view> names) const;
  /// The object below `key`, or nothing when absent.
  std::optional<ConfigKeys> object(std::string_view key) const;
  /// The value itself, or nullptr when absent.
  const Json* find(std::string_view key) const;

  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;

 private:
  const Json& require(std::string_view key, std::string_view expected) const;
  template <typename Read>
  void each(std::string_view key, std::size_t count, const Read& read) const;

  const Json* object_;
  std::string where_;
};

}  // namespace talon
