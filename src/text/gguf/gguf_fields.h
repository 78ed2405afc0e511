#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "io/json.h"

namespace talon {

/// Reads the tokenizer's key-values of a GGUF, checking each: Errors name the file and the key.
/// Borrows both.
class GgufFields {
 public:
  GgufFields(const Json& metadata, std::string_view doing) : metadata_(metadata), doing_(doing) {}

  /// Nothing if the key is missing.
  std::optional<std::string> text(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  /// A token id, smaller than `tokens`.
  std::optional<TokenId> token(std::string_view key, int tokens) const;

  /// A list of texts in UTF-8; an Error if the key is missing.
  std::vector<std::string_view> texts(std::string_view key) const;
  /// A list of `count` numbers; empty if the key is missing.
  std::vector<float> numbers(std::string_view key, std::size_t count) const;
  std::vector<int> integers(std::string_view key, std::size_t count, int low, int high) const;

 private:
  const Json* find(std::string_view key) const;
  /// The list of that key with `count` items, or nullptr if it is missing.
  const Json* list(std::string_view key, std::size_t count) const;

  const Json& metadata_;
  std::string_view doing_;
};

}  // namespace talon
