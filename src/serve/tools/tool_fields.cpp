#include "serve/tools/tool_fields.h"

#include <algorithm>
#include <array>

#include "io/json_text.h"
#include "serve/api/api_error.h"

namespace talon {
namespace {

constexpr std::size_t kMostChoices = 1024;
/// Keys are looked for one by one: so many comparisons take a third of a second.
constexpr std::size_t kMostComparisons = 100'000'000;
/// Of other servers: whoever sends one wants its form, and must not get an answer without it.
constexpr std::array<std::string_view, 6> kOtherForms = {
    "guided_json", "guided_regex", "guided_choice", "guided_grammar", "regex", "ebnf"};
constexpr std::size_t kMostTools = 256, kLongestName = 128;

std::size_t comparisons(const Json& value) {
  if (!value.is_structured()) return 0;
  std::size_t count = value.is_object() ? value.size() * value.size() : 0;
  for (const Json& item : value) count += comparisons(item);
  return count;
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':' || c == '/';
  });
}

std::string read_name(const Fields& fields) {
  const auto name = fields.text("name");
  if (!name || !is_name(*name)) {
    fields.refuse("name", "a name of at most 128 letters, digits, _, -, . , : or /");
  }
  return *name;
}

/// One function, in the object `fields` with the same keys in order in `ordered`.
Tool read_function(const Fields& fields, const OrderedJson& ordered, const char* schema_field) {
  Tool tool;
  tool.name = read_name(fields);
  tool.description = fields.text("description").value_or("");
  tool.strict = fields.flag("strict").value_or(false);
  if (fields.object(schema_field)) tool.parameters = ordered[schema_field];
  return tool;
}

Tool read_tool(ToolShape shape, const std::string& path, const Json& json,
               const OrderedJson& ordered) {
  if (!json.is_object()) refuse_field(path, "an object", json);
  const Fields fields(json, path + ".");
  const std::string type =
      fields.text("type").value_or(shape == ToolShape::messages ? "custom" : "function");
  const char* expected = shape == ToolShape::messages ? "custom" : "function";
  if (type != expected) fields.refuse("type", fmt::format("\"{}\"", expected));
  if (shape == ToolShape::messages) return read_function(fields, ordered, "input_schema");
  if (shape == ToolShape::responses) return read_function(fields, ordered, "parameters");
  const auto function = fields.object("function");
  if (!function) fields.refuse("function", "an object");
  return read_function(*function, ordered["function"], "parameters");
}

/// Leaves the tools of that name alone to be called.
void choose(ToolUse& use, const Fields& fields, const std::string& name) {
  use.choice = ToolUse::Choice::required;
  std::erase_if(use.chosen, [&](const Tool& tool) { return tool.name != name; });
  if (use.chosen.empty()) fields.refuse("name", "the name of one of the tools");
}

/// Leaves the tools of a list of `allowed_tools` alone: the model hears of no others.
void allow(ToolShape shape, ToolUse& use, const Fields& allowed) {
  const std::string mode = allowed.text("mode").value_or("auto");
  if (mode != "auto" && mode != "required") allowed.refuse("mode", "auto or required");
  const Json* list = allowed.array("tools", kMostTools);
  if (!list || list->empty()) allowed.refuse("tools", "an array of at least one tool");
  std::vector<Tool> chosen;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string path = allowed.path_of(fmt::format("tools[{}]", i));
    if (!(*list)[i].is_object()) refuse_field(path, "an object", (*list)[i]);
    const Fields tool((*list)[i], path + ".");
    const auto inner = shape == ToolShape::chat ? tool.object("function") : tool;
    if (!inner) tool.refuse("function", "an object");
    const std::string name = inner->text("name").value_or("");
    const auto found = std::ranges::find(use.tools, name, &Tool::name);
    if (found == use.tools.end()) inner->refuse("name", "the name of one of the tools");
    chosen.push_back(*found);
  }
  use.tools = use.chosen = std::move(chosen);
  if (mode == "required") use.choice = ToolUse::Choice::required;
}

void choose_by_word(ToolUse& use, const Fields& fields, const std::string& word) {
  using Choice = ToolUse::Choice;
  if (word == "none") {
    use.choice = Choice::none;
  } else if (word == "required" || word == "any") {
    use.choice = Choice::required;
  } else if (word != "auto") {
    fields.refuse("tool_choice", "none, auto, required or an object with the name of a tool");
  }
}

/// Of Anthropic's interface.
void choose_by_type(ToolUse& use, const Fields& choice) {
  using Choice = ToolUse::Choice;
  const std::string type = choice.text("type").value_or("");
  if (choice.flag("disable_parallel_tool_use").value_or(false)) use.parallel = false;
  if (type == "tool") return choose(use, choice, choice.text("name").value_or(""));
  if (type == "none") {
    use.choice = Choice::none;
  } else if (type == "any") {
    use.choice = Choice::required;
  } else if (type != "auto") {
    choice.refuse("type", "auto, any, tool or none");
  }
}

void read_choice(ToolShape shape, const Fields& fields, ToolUse& use) {
  const Json* choice = fields.find("tool_choice");
  if (!choice) return;
  if (choice->is_string() && shape != ToolShape::messages) {
    return choose_by_word(use, fields, choice->get<std::string>());
  }
  if (!choice->is_object()) {
    fields.refuse("tool_choice",
                  shape == ToolShape::messages ? "an object" : "none, auto, required or an object");
  }
  const Fields object(*choice, fields.path_of("tool_choice."));
  if (shape == ToolShape::messages) return choose_by_type(use, object);
  const std::string type = object.text("type").value_or("");
  if (type == "allowed_tools") {
    const auto allowed = shape == ToolShape::chat ? object.object("allowed_tools") : object;
    if (!allowed) object.refuse("allowed_tools", "an object");
    return allow(shape, use, *allowed);
  }
  if (type != "function") object.refuse("type", "function or allowed_tools");
  use.parallel = false;  // one call, as clients count on that ask for a function by its name
  if (shape == ToolShape::responses) return choose(use, object, object.text("name").value_or(""));
  const auto function = object.object("function");
  if (!function) object.refuse("function", "an object");
  choose(use, *function, function->text("name").value_or(""));
}

/// JSON with the keys of its objects in the order of `text`. path: of a field; empty: the body.
OrderedJson in_order(const std::string& path, const Json& json, const std::string& text) {
  if (comparisons(json) > kMostComparisons) {
    throw ApiError(
        400, path,
        fmt::format("{}: expected objects of fewer entries", path.empty() ? "body" : path),
        "invalid_value");
  }
  return OrderedJson::parse(text);
}

/// The schema in a field: an object, or `true`, which any value fits.
AskedGrammar asked_schema(const Fields& fields, const char* name, const OrderedJson& schema) {
  if (!schema.is_object() && schema != true) fields.refuse(name, "a JSON schema");
  return {fields.path_of(name), {GrammarText::Kind::json_schema, schema.dump()}};
}

/// What a text holds that may be a schema.
OrderedJson schema_in(const std::string& path, const std::string& text) {
  Json json;
  try {
    json = parse_json(text, path);
  } catch (const Error& error) {
    throw ApiError(400, path, error.what(), "invalid_grammar");
  }
  return in_order(path, json, text);
}

/// {type: "json_schema" | "json_object" | "text"} with the schema beside it or in `json_schema`.
std::optional<AskedGrammar> read_format(const Fields& format, const OrderedJson& ordered,
                                        bool is_nested) {
  const std::string type = format.text("type").value_or("");
  const auto object = [](std::string field) {
    return AskedGrammar{std::move(field), {GrammarText::Kind::json_schema, R"({"type":"object"})"}};
  };
  if (type == "text") return std::nullopt;
  if (type != "json_schema" && type != "json_object") {
    format.refuse("type", "text, json_object or json_schema");
  }
  std::optional<Fields> inner = format;
  const OrderedJson* place = &ordered;
  if (type == "json_schema" && is_nested) {
    inner = format.object("json_schema");
    if (!inner) format.refuse("json_schema", "an object");
    place = &ordered["json_schema"];
  }
  for (const char* name : {"name", "description"}) inner->text(name);
  inner->flag("strict");
  if (inner->find("schema")) return asked_schema(*inner, "schema", (*place)["schema"]);
  return object(format.path_of("type"));
}

/// Of vLLM, beside the form itself: what would change it and is not there is refused.
void refuse_other_details(const Fields& fields) {
  if (fields.text("whitespace_pattern")) {
    fields.refuse("whitespace_pattern", "none: x-guidance in a schema leaves white space free");
  }
  if (fields.flag("disable_additional_properties").value_or(false)) {
    fields.refuse("disable_additional_properties", "false: a schema has additionalProperties");
  }
  fields.text("backend");
  for (const char* name : {"disable_fallback", "disable_any_whitespace"}) fields.flag(name);
}

std::optional<AskedGrammar> read_structured(const Fields& fields, const OrderedJson& ordered) {
  constexpr std::array<std::string_view, 10> kKnown = {"json",
                                                       "regex",
                                                       "choice",
                                                       "grammar",
                                                       "json_object",
                                                       "whitespace_pattern",
                                                       "backend",
                                                       "disable_fallback",
                                                       "disable_any_whitespace",
                                                       "disable_additional_properties"};
  fields.allow_only(kKnown);
  refuse_other_details(fields);
  std::vector<AskedGrammar> asked;
  using Kind = GrammarText::Kind;
  if (const Json* schema = fields.find("json")) {
    const bool is_text = schema->is_string();
    asked.push_back(asked_schema(
        fields, "json",
        is_text ? schema_in(fields.path_of("json"), schema->get<std::string>()) : ordered["json"]));
  }
  if (const auto regex = fields.text("regex")) {
    asked.push_back({fields.path_of("regex"), {Kind::regex, *regex}});
  }
  if (const Json* choice = fields.array("choice", kMostChoices)) {
    asked.push_back({fields.path_of("choice"), {Kind::choice, choice->dump()}});
  }
  if (const auto grammar = fields.text("grammar")) {
    asked.push_back({fields.path_of("grammar"), {grammar_kind(*grammar), *grammar}});
  }
  if (fields.flag("json_object").value_or(false)) {
    asked.push_back({fields.path_of("json_object"), {Kind::json_schema, R"({"type":"object"})"}});
  }
  if (asked.size() > 1) fields.refuse(asked[1].field.substr(fields.path_of("").size()), "one form");
  return asked.empty() ? std::nullopt : std::optional(asked.front());
}

const OrderedJson& at(const OrderedJson& body, const char* name) {
  static const OrderedJson kNone;
  return body.is_object() && body.contains(name) ? body[name] : kNone;
}

}  // namespace

OrderedJson ordered_body(const Json& body, const std::string& text) {
  return in_order("", body, text);
}

bool is_function_tool(ToolShape shape, const Json& tool) {
  const Json type = tool.is_object() ? tool.value("type", Json()) : Json();
  if (!type.is_string() || type == "function") return true;
  return shape == ToolShape::messages && type == "custom";
}

std::optional<AskedGrammar> read_grammar(const Fields& fields, const OrderedJson& body,
                                         const RequestLimits& limits) {
  for (const std::string_view name : kOtherForms) {
    if (fields.find(name)) fields.refuse(name, "none: structured_outputs has such forms");
  }
  std::vector<AskedGrammar> asked;
  const auto add = [&](std::optional<AskedGrammar> one) {
    if (one) asked.push_back(*std::move(one));
  };
  if (const auto format = fields.object("response_format")) {
    add(read_format(*format, body["response_format"], true));
  }
  for (const char* name : {"text", "output_config"}) {
    const Json* holder = fields.find(name);
    if (!holder || !holder->is_object()) continue;
    const Fields inner(*holder, fields.path_of(std::string(name) + "."));
    const auto format = inner.object("format");
    if (format) add(read_format(*format, at(body[name], "format"), false));
  }
  if (const auto format = fields.object("output_format")) {
    add(read_format(*format, body["output_format"], false));
  }
  if (const auto structured = fields.object("structured_outputs")) {
    add(read_structured(*structured, body["structured_outputs"]));
  }
  if (const auto grammar = fields.text("grammar"); grammar && !grammar->empty()) {
    add(AskedGrammar{"grammar", {grammar_kind(*grammar), *grammar}});
  }
  if (const auto schema = fields.object("json_schema")) {
    add(asked_schema(fields, "json_schema", body["json_schema"]));
  }
  if (asked.empty()) return std::nullopt;
  if (asked.size() > 1) {
    throw ApiError(400, asked[1].field,
                   fmt::format("{}: expected one form of the answer, found {} as well",
                               asked[1].field, asked[0].field),
                   "invalid_value");
  }
  if (asked[0].text.source.size() > limits.grammar_bytes) {
    throw ApiError(400, asked[0].field,
                   fmt::format("{}: expected at most {} bytes, found {}", asked[0].field,
                               limits.grammar_bytes, asked[0].text.source.size()),
                   "invalid_value");
  }
  return asked.front();
}

ToolUse read_tools(ToolShape shape, const Fields& fields, const OrderedJson& body,
                   const RequestLimits& limits) {
  ToolUse use;
  use.parallel = fields.flag("parallel_tool_calls").value_or(true);
  const Json* list = fields.array("tools", kMostTools);
  std::size_t bytes = 0;
  for (std::size_t i = 0; list && i < list->size(); ++i) {
    if (shape != ToolShape::chat && !is_function_tool(shape, (*list)[i])) continue;
    const std::string path = fields.path_of(fmt::format("tools[{}]", i));
    use.tools.push_back(read_tool(shape, path, (*list)[i], body["tools"][i]));
    bytes += use.tools.back().parameters.dump().size();
  }
  if (use.tools.empty()) {
    const Json* choice = fields.find("tool_choice");
    if (!choice) return use;
    const Json word = choice->is_object() ? choice->value("type", Json()) : *choice;
    if (word != "none" && word != "auto") fields.refuse("tool_choice", "tools beside it");
    return use;
  }
  if (bytes > limits.grammar_bytes) {
    fields.refuse("tools", fmt::format("schemas of at most {} bytes", limits.grammar_bytes));
  }
  use.choice = ToolUse::Choice::automatic;
  use.chosen = use.tools;
  read_choice(shape, fields, use);
  return use;
}

}  // namespace talon
