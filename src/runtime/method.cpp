#include "runtime/method.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/error.h"
#include "draft/registry.h"

namespace talon {
namespace {

/// Where the next `@key=` begins, or npos. Other @ signs belong to values, such as paths.
std::size_t find_setting(std::string_view text) {
  for (std::size_t at = text.find('@'); at != text.npos; at = text.find('@', at + 1)) {
    const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at + 1);
    if (end != text.npos && end > at + 1 && text[end] == '=') return at;
  }
  return text.npos;
}

bool has_weights(std::string_view drafter) {
  const DrafterEntry* row = find_row(drafters(), drafter);
  return row && std::ranges::find(row->options, "weights", &Option::name) != row->options.end();
}

/// `:head=PATH,taps=1/2`, as far as they are given.
std::string weight_options(const OptionText& drafter) {
  std::string options;
  for (const auto& [key, value] : drafter.items) {
    if (std::ranges::find(kWeightOptions, key) == kWeightOptions.end()) continue;
    options += fmt::format("{}{}={}", options.empty() ? ":" : ",", key, value);
  }
  return options;
}

}  // namespace

MethodText parse_method(std::string_view text) {
  MethodText method;
  method.text = text;
  std::size_t at = find_setting(text);
  method.drafter = text.substr(0, at);
  const std::array<std::pair<std::string_view, std::string*>, 2> settings = {
      {{"policy", &method.policy}, {"verify", &method.verify}}};
  while (at != text.npos) {
    text.remove_prefix(at + 1);
    at = find_setting(text);
    const std::string_view setting = text.substr(0, at);
    const std::size_t equals = setting.find('=');
    const auto known = std::find_if(settings.begin(), settings.end(), [&](const auto& entry) {
      return entry.first == setting.substr(0, equals);
    });
    if (known == settings.end() || !known->second->empty() || equals + 1 == setting.size()) {
      throw UsageError(fmt::format(
          "method \"{}\": expected DRAFTER[@policy=POLICY][@verify=RULE], found \"@{}\"",
          method.text, setting));
    }
    *known->second = setting.substr(equals + 1);
  }
  if (method.drafter.empty()) {
    throw UsageError(fmt::format("method \"{}\": expected a drafter first", method.text));
  }
  return method;
}

MethodText with_drafter(const MethodText& method, const std::string& drafter) {
  return parse_method(drafter + method.text.substr(method.drafter.size()));
}

std::vector<std::string> split_methods(std::string_view list) {
  std::vector<std::string> methods;
  if (list.empty()) return methods;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    const std::string_view piece = list.substr(begin, comma - begin);
    if (piece.empty()) {
      throw UsageError(
          fmt::format("methods \"{}\": expected a method between commas, found none", list));
    }
    const std::size_t first = piece.find_first_of(":@=");
    const bool is_option = first != piece.npos && piece[first] == '=';
    if (is_option && !methods.empty()) {
      methods.back().append(",").append(piece);
    } else {
      methods.emplace_back(piece);
    }
    begin = comma + 1;
  }
  return methods;
}

std::string weights_of(std::string_view drafter) {
  std::set<std::string> parts;
  for (const std::string_view text : split_drafters(drafter)) {
    const OptionText part(text);
    if (has_weights(part.name)) parts.insert(part.name + weight_options(part));
  }
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, "+"));
}

std::string with_weights_of(std::string_view own, std::string_view asked) {
  std::string joined;
  for (const std::string_view text : split_drafters(asked)) {
    joined += (joined.empty() ? "" : "+") + std::string(text);
    const std::string name = OptionText(text).name;
    for (const std::string_view own_text : split_drafters(own)) {
      const OptionText part(own_text);
      if (part.name != name) continue;
      std::string options = weight_options(part);
      if (!options.empty() && text.find(':') != text.npos) options.front() = ',';
      joined += options;
      break;
    }
  }
  return joined;
}

}  // namespace talon
