#include "serve/tools/grammar/python_grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "serve/api/api_error.h"

namespace talon {
namespace {

/// Rules stand within each other, and shared schemas with each parameter.
constexpr std::size_t kMostParameters = 256, kMostGrammarBytes = 1 << 20;

void expect_few(const Tool& tool, std::size_t found, std::size_t most, const char* what) {
  if (found <= most) return;
  throw ApiError(
      400, "tools",
      fmt::format("tools: {}: expected at most {} {}, found {}", tool.name, most, what, found),
      "invalid_value");
}

std::string any_arguments(LarkRules& rules) {
  const std::string any =
      rules.add_numbered("argument", "/[A-Za-z_][A-Za-z0-9_]{0,63}=/ " + lark_json(true));
  return "(" + any + " (\", \" " + any + ")*)?";
}

/// REQUIRES: the schema has an object of properties.
std::string schema_arguments(const Tool& tool, LarkRules& rules) {
  const OrderedJson& schema = tool.parameters;
  const OrderedJson required = schema.value("required", OrderedJson::array());
  const auto is_required = [&](const std::string& key) {
    return std::ranges::find(required, OrderedJson(key)) != required.end();
  };
  // What may be written from a key on: as the first argument, and behind others.
  std::string first, more;
  const OrderedJson& properties = schema["properties"];
  expect_few(tool, properties.size(), kMostParameters, "parameters");
  for (auto property = properties.rbegin(); property != properties.rend(); ++property) {
    OrderedJson value = property.value();
    for (const char* shared : {"$defs", "definitions"}) {
      if (value.is_object() && schema.contains(shared)) value[shared] = schema[shared];
    }
    const std::string argument =
        rules.add_numbered("argument", lark_text(property.key() + "=") + " " + lark_json(value));
    expect_few(tool, rules.lines.size(), kMostGrammarBytes,
               "bytes of schemas, shared ones each time");
    const std::string begun = argument + " " + more;
    const bool must = is_required(property.key());
    first = must ? begun : first.empty() ? "(" + begun + ")?" : begun + " | " + first;
    first = rules.add_numbered("first", first);
    more = must ? "\", \" " + begun : "(\", \" " + argument + ")? " + more;
    more = rules.add_numbered("more", more);
  }
  return first;
}

}  // namespace

std::string python_call(const Tool& tool, bool keeps_to_schema, LarkRules& rules) {
  const OrderedJson& schema = tool.parameters;
  const bool has_keys = schema.contains("properties") && schema["properties"].is_object();
  const std::string arguments =
      keeps_to_schema && has_keys ? schema_arguments(tool, rules) : any_arguments(rules);
  return lark_text(tool.name + "(") + " " + arguments + " \")\"";
}

}  // namespace talon
