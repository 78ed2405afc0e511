#include "text/gguf/gguf_fields.h"

#include "core/error.h"
#include "text/utf8.h"

namespace talon {

const Json* GgufFields::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &*found;
}

std::optional<std::string> GgufFields::text(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string())
    fail("{}: {}: expected a text, found {}", doing_, key, value->type_name());
  return value->get<std::string>();
}

std::optional<bool> GgufFields::boolean(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    fail("{}: {}: expected a boolean, found {}", doing_, key, value->type_name());
  }
  return value->get<bool>();
}

std::optional<TokenId> GgufFields::token(std::string_view key, int tokens) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer() || *value < 0 || *value >= tokens) {
    fail("{}: {}: expected a token id below {}, found {}", doing_, key, tokens,
         value->is_number() ? value->dump() : value->type_name());
  }
  return value->get<TokenId>();
}

std::vector<std::string_view> GgufFields::texts(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) fail("{}: {}: expected a list of texts, found none", doing_, key);
  if (!value->is_array()) {
    fail("{}: {}: expected a list of texts, found {}", doing_, key, value->type_name());
  }
  std::vector<std::string_view> texts;
  texts.reserve(value->size());
  for (const Json& item : *value) {
    const auto* text = item.get_ptr<const std::string*>();
    if (text == nullptr || !is_well_formed(*text)) {
      fail("{}: {}[{}]: expected a text in UTF-8, found {}", doing_, key, texts.size(),
           text == nullptr ? item.type_name() : "other bytes");
    }
    texts.push_back(*text);
  }
  return texts;
}

const Json* GgufFields::list(std::string_view key, std::size_t count) const {
  const Json* value = find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_array() || value->size() != count) {
    fail("{}: {}: expected a list of {} numbers, found {}", doing_, key, count,
         value->is_array() ? fmt::format("{}", value->size()) : value->type_name());
  }
  return value;
}

std::vector<float> GgufFields::numbers(std::string_view key, std::size_t count) const {
  std::vector<float> numbers;
  const Json* value = list(key, count);
  if (value == nullptr) return numbers;
  numbers.reserve(count);
  for (const Json& item : *value) {
    if (!item.is_number()) {
      fail("{}: {}[{}]: expected a number, found {}", doing_, key, numbers.size(),
           item.type_name());
    }
    numbers.push_back(item.get<float>());
  }
  return numbers;
}

std::vector<int> GgufFields::integers(std::string_view key, std::size_t count, int low,
                                      int high) const {
  std::vector<int> integers;
  const Json* value = list(key, count);
  if (value == nullptr) return integers;
  integers.reserve(count);
  for (const Json& item : *value) {
    if (!item.is_number_integer() || item < low || item > high) {
      fail("{}: {}[{}]: expected {} to {}, found {}", doing_, key, integers.size(), low, high,
           item.is_number() ? item.dump() : item.type_name());
    }
    integers.push_back(item.get<int>());
  }
  return integers;
}

}  // namespace talon
