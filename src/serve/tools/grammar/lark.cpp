#include "serve/tools/grammar/lark.h"

#include <fmt/format.h>

#include "io/json.h"

namespace talon {

std::string LarkRules::add(const std::string& name, const std::string& body) {
  lines += name + ": " + body + "\n";
  return name;
}

std::string LarkRules::add_numbered(const std::string& name, const std::string& body) {
  return add(fmt::format("{}{}", name, next++), body);
}

std::string lark_text(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string lark_escaped(std::string_view text) {
  constexpr std::string_view kMeant = "|[].+*?(){}^$/\\";  // otherwise than as they are
  std::string all;
  for (const char c : text) {
    if (kMeant.find(c) != std::string_view::npos) all += '\\';
    all += c;
  }
  return all;
}

std::string lark_text_without(std::span<const std::string_view> parts) {
  std::string any;
  for (const std::string_view part : parts) any += (any.empty() ? "" : "|") + lark_escaped(part);
  if (any.empty()) return kLarkAnyText;
  return fmt::format("{} & ~/(?s:.)*({})(?s:.)*/", kLarkAnyText, any);
}

std::string lark_json(OrderedJson schema) {
  if (!schema.is_object()) schema = OrderedJson::object();
  if (!schema.contains("x-guidance")) {
    schema["x-guidance"] = {
        {"whitespace_flexible", false}, {"item_separator", ", "}, {"key_separator", ": "}};
  }
  return "%json " + schema.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace talon
