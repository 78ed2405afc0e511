#include "serve/tools/spelled_call.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "io/json_text.h"
#include "serve/tools/mark_search.h"
#include "serve/tools/tool_use.h"
#include "text/chat_template.h"

namespace talon {
namespace {

/// What stands before `mark`, which both are taken; nothing if there is no mark.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + mark.size());
  return before;
}

bool eat(std::string_view& text, std::string_view mark) {
  text.remove_prefix(leading_space(text));
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(mark.size());
  return true;
}

/// The types that a schema allows; none: any.
void collect_types(const OrderedJson& schema, std::set<std::string>& types) {
  if (!schema.is_object()) return;
  const auto type = schema.find("type");
  if (type != schema.end() && type->is_string()) types.insert(type->get<std::string>());
  if (type != schema.end() && type->is_array()) {
    for (const OrderedJson& one : *type) {
      if (one.is_string()) types.insert(one.get<std::string>());
    }
  }
  for (const char* choice : {"anyOf", "oneOf"}) {
    if (!schema.contains(choice) || !schema[choice].is_array()) continue;
    for (const OrderedJson& one : schema[choice]) collect_types(one, types);
  }
}

std::set<std::string> types_of(const OrderedJson* schema, const std::string& key) {
  std::set<std::string> types;
  if (!schema || !schema->is_object()) return types;
  const auto properties = schema->find("properties");
  if (properties == schema->end() || !properties->is_object()) return types;
  const auto property = properties->find(key);
  if (property != properties->end()) collect_types(*property, types);
  return types;
}

bool allows(const std::set<std::string>& types, const OrderedJson& value) {
  if (types.empty()) return !value.is_string();
  const auto has = [&](const char* type) { return types.contains(type); };
  if (value.is_null()) return has("null");
  if (value.is_boolean()) return has("boolean");
  if (value.is_number_integer()) return has("integer") || has("number");
  if (value.is_number()) return has("number");
  if (value.is_array()) return has("array");
  return value.is_object() && has("object");
}

/// Templates write True, False and None where they print a value.
OrderedJson parsed(std::string_view text) {
  if (text == "True" || text == "False") return text == "True";
  if (text == "None") return nullptr;
  try {
    parse_json(text, "value");  // bounded in depth
  } catch (const Error&) {
    return OrderedJson(OrderedJson::value_t::discarded);
  }
  return OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
}

OrderedJson value_of(std::string_view text, const std::set<std::string>& types) {
  const OrderedJson json = parsed(trimmed(text));
  if (!json.is_discarded() && allows(types, json)) return json;
  return std::string(text);
}

/// Values stand on lines of their own.
std::string_view without_line_breaks(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

const OrderedJson* schema_of(const ToolSchemas& schemas, std::string_view name) {
  const auto found = schemas.find(std::string(name));
  return found == schemas.end() ? nullptr : &found->second;
}

/// What stands around the keys and values of parameters.
struct ParameterTags {
  std::string_view begin, key_end;
  std::string_view value_begin;  // empty: the value follows the key, on lines of its own
  std::string_view end;
};
constexpr ParameterTags kFunctionTags = {"<parameter=", ">", "", "</parameter>"};
constexpr ParameterTags kInvokeTags = {"<parameter name=\"", "\">", "", "</parameter>"};
constexpr ParameterTags kPairTags = {"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};
constexpr ParameterTags kOpenPairTags = {"<arg_key:opensource>", "</arg_key:opensource>",
                                         "<arg_value:opensource>", "</arg_value:opensource>"};

std::optional<OrderedJson> read_parameters(std::string_view& text, const ParameterTags& tags,
                                           const OrderedJson* schema) {
  OrderedJson arguments = OrderedJson::object();
  while (eat(text, tags.begin)) {
    const auto key = take_until(text, tags.key_end);
    const bool is_pair = !tags.value_begin.empty();
    if (!key || (is_pair && !eat(text, tags.value_begin))) return std::nullopt;
    const auto value = take_until(text, tags.end);
    if (!value) return std::nullopt;
    const std::string name(trimmed(*key));
    arguments[name] =
        value_of(is_pair ? *value : without_line_breaks(*value), types_of(schema, name));
  }
  return arguments;
}

bool is_call_name(std::string_view name) {
  return !name.empty() && std::ranges::none_of(name, is_space);
}

ReadAnswer::Call call_of(std::string_view name, const OrderedJson& arguments) {
  return {std::string(name), arguments.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)};
}

/// The object between fences, with the first of which the text begins.
std::string_view between_fences(std::string_view text) {
  text.remove_prefix(std::min(text.find('{'), text.size()));
  return trimmed(text.substr(0, text.rfind("```")));
}

}  // namespace

std::optional<ReadAnswer::Call> read_spelled_call(std::string_view text,
                                                  const ToolSchemas& schemas) {
  const bool is_function = eat(text, "<function=");
  std::string_view name;
  if (is_function) {
    name = trimmed(take_until(text, ">").value_or(""));
  } else {
    name = text.substr(0, text.find('<'));
    text.remove_prefix(name.size());
    name = trimmed(name);
  }
  if (!is_call_name(name)) return std::nullopt;
  const OrderedJson* schema = schema_of(schemas, name);
  const auto arguments = read_parameters(text, is_function ? kFunctionTags : kPairTags, schema);
  // A name alone is a call if a tool has it.
  if (!is_function && arguments && arguments->empty() && !schema) return std::nullopt;
  if (!arguments || (is_function && !eat(text, "</function>"))) return std::nullopt;
  if (leading_space(text) != text.size()) return std::nullopt;
  return call_of(name, *arguments);
}

std::vector<ReadAnswer::Call> read_invocations(std::string_view text, const ToolSchemas& schemas) {
  std::vector<ReadAnswer::Call> calls;
  while (eat(text, "<invoke name=\"")) {
    const std::string_view name = take_until(text, "\">").value_or("");
    const auto arguments = read_parameters(text, kInvokeTags, schema_of(schemas, name));
    if (!is_call_name(name) || !arguments || !eat(text, "</invoke>")) return {};
    calls.push_back(call_of(name, *arguments));
  }
  if (leading_space(text) != text.size()) calls.clear();
  return calls;
}

std::optional<ReadAnswer::Call> read_hunyuan_call(std::string_view text, const ToolSchemas& schemas,
                                                  bool is_open) {
  const std::string_view sep = is_open ? "<tool_sep:opensource>" : "<tool_sep>";
  const std::size_t end = std::min(text.find(sep), text.find("```"));
  const std::string_view name = trimmed(text.substr(0, end));
  if (end == std::string_view::npos || !is_call_name(name)) return std::nullopt;
  text.remove_prefix(end);
  const bool is_fenced = !text.starts_with(sep);
  text = is_fenced ? between_fences(text) : trimmed(text.substr(sep.size()));
  if (is_fenced || text.starts_with('{')) {
    const std::string object(text);
    if (object.empty() || object_in(object).is_null()) return std::nullopt;
    return ReadAnswer::Call{std::string(name), object};
  }
  const auto arguments =
      read_parameters(text, is_open ? kOpenPairTags : kPairTags, schema_of(schemas, name));
  if (!arguments || !text.empty()) return std::nullopt;
  return call_of(name, *arguments);
}

}  // namespace talon
