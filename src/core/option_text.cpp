#include "core/option_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "core/error.h"

namespace talon {
namespace {

template <typename... Args>
[[noreturn]] void misuse(fmt::format_string<Args...> format, Args&&... args) {
  throw UsageError(fmt::format(format, std::forward<Args>(args)...));
}

/// The whole of `text` as a number; false when it is anything else.
template <typename Number>
bool parse(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

}  // namespace

OptionText::OptionText(std::string_view text) {
  const std::size_t colon = text.find(':');
  name_ = text.substr(0, colon);
  if (name_.empty())
    misuse("options \"{}\": expected NAME or NAME:KEY=VALUE,..., found no name", text);
  if (colon == std::string_view::npos) return;

  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const std::string_view item = rest.substr(0, rest.find(','));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      misuse("options \"{}\": expected KEY=VALUE, found \"{}\"", text, item);
    }
    const std::string key(item.substr(0, equals));
    for (const Item& other : items_) {
      if (other.key == key) misuse("options \"{}\": {} is given twice", text, key);
    }
    items_.push_back({key, std::string(item.substr(equals + 1))});
    if (item.size() == rest.size()) return;
    rest.remove_prefix(item.size() + 1);
  }
}

OptionText::Item* OptionText::take(std::string_view key) {
  known_.emplace_back(key);
  for (Item& item : items_) {
    if (item.key == key) {
      item.used = true;
      return &item;
    }
  }
  return nullptr;
}

int OptionText::take_int(std::string_view key, int fallback, int least, int most) {
  const Item* item = take(key);
  if (!item) return fallback;
  int value = 0;
  if (!parse(item->value, value) || value < least || value > most) {
    misuse("{}: option {}: expected a whole number from {} to {}, found \"{}\"", name_, key, least,
           most, item->value);
  }
  return value;
}

double OptionText::take_double(std::string_view key, double fallback, double least, double most) {
  const Item* item = take(key);
  if (!item) return fallback;
  double value = 0;
  if (!parse(item->value, value) || !(value >= least && value <= most)) {
    misuse("{}: option {}: expected a number from {} to {}, found \"{}\"", name_, key, least, most,
           item->value);
  }
  return value;
}

std::string OptionText::take_text(std::string_view key, std::string fallback) {
  const Item* item = take(key);
  return item ? item->value : std::move(fallback);
}

void OptionText::finish() const {
  for (const Item& item : items_) {
    if (item.used) continue;
    if (known_.empty()) misuse("{}: takes no options, found \"{}\"", name_, item.key);
    misuse("{}: no option \"{}\"; it has {}", name_, item.key, fmt::join(known_, ", "));
  }
}

}  // namespace talon
