#include <fmt/format.h>

#include <algorithm>

#include "serve/api/api_error.h"
#include "serve/tools/tool_use.h"

namespace talon {
namespace {

/// Of a call as Python writes it, whose rules stand within each other.
constexpr std::size_t kMostParameters = 256, kMostGrammarBytes = 1 << 20;
constexpr const char* kAnyText = "/(?s:.)*/";

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A regular expression of a mark.
std::string escaped(std::string_view mark) {
  std::string text;
  for (const char c : mark) {
    if (c == '|' || c == '[' || c == ']') text += '\\';
    text += c;
  }
  return text;
}

/// llguidance's Lark for a schema, an object or `true`, written on one line.
std::string json_of(OrderedJson schema) {
  if (!schema.is_object()) schema = OrderedJson::object();
  if (!schema.contains("x-guidance")) {
    schema["x-guidance"] = {
        {"whitespace_flexible", false}, {"item_separator", ", "}, {"key_separator", ": "}};
  }
  return "%json " + schema.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

/// A schema of arguments, which are an object even where it does not say so.
OrderedJson object_schema(OrderedJson schema) {
  if (!schema.contains("type")) schema["type"] = "object";
  return schema;
}

/// Whether an answer may hold a thought, or messages as harmony has them, before what is asked for.
bool has_lead(const AnswerStyle& style) {
  return style.reasons || (style.dialect == ToolDialect::harmony && !style.continues);
}

/// Whether a grammar says itself what is thought.
bool spells_thought(const GrammarText& text, const AnswerStyle& style) {
  const char* mark = style.dialect == ToolDialect::harmony     ? "<|message|>"
                     : style.thoughts == ThoughtMarks::mistral ? "[/THINK]"
                                                               : "think>";
  return text.source.find(mark) != std::string::npos;
}

/// Writes what an answer must look like as rules of a Lark grammar.
class GrammarWriter {
 public:
  GrammarWriter(const ToolUse& use, const AnswerStyle& style, const Tokenizer& tokenizer)
      : use_(use), style_(style), tokenizer_(tokenizer) {}

  std::string calls() {
    switch (style_.dialect) {
      case ToolDialect::hermes:
      case ToolDialect::none:
        return tagged_calls("\"<tool_call>\\n\"", "\"\\n</tool_call>\"");
      case ToolDialect::seed:
        return tagged_calls(mark("<seed:tool_call>") + " \"\\n\"",
                            "\"\\n\" " + mark("</seed:tool_call>"));
      case ToolDialect::llama3:
        return objects("parameters");
      case ToolDialect::mistral:
        return mistral_calls();
      case ToolDialect::harmony:
        return mark("<|channel|>") + " \"commentary to=functions.\" (" +
               each([&](const Tool& tool) {
                 return quoted(tool.name + " ") + " " + mark("<|constrain|>") + " \"json\" " +
                        mark("<|message|>") + " " + arguments(tool);
               }) +
               ")";
      case ToolDialect::functiongemma:
        return gemma_call("<start_function_call>", "<end_function_call>");
      case ToolDialect::gemma4: {
        const std::string call = rule("call", gemma_call("<|tool_call>", "<tool_call|>"));
        return call + repeated(" " + call + "*");
      }
      case ToolDialect::cohere:
        return mark("<|START_ACTION|>") + " \"[\" " +
               objects("parameters", "{\"tool_call_id\": \"0\", \"tool_name\": ") + " \"]\" " +
               mark("<|END_ACTION|>");
      case ToolDialect::deepseek:
        return deepseek_calls();
      case ToolDialect::granite:
        return listed_calls("<|tool_call|>");
      case ToolDialect::nemotron:
        return listed_calls("<TOOLCALL>") + " " + mark("</TOOLCALL>");
      case ToolDialect::kimi:
        return kimi_calls();
      case ToolDialect::olmo: {
        const std::string call =
            rule("call", each([&](const Tool& tool) { return python_call(tool); }));
        return mark("<function_calls>") + " " + call + repeated(" (\"\\n\" " + call + ")*") + " " +
               mark("</function_calls>");
      }
    }
    return "";
  }

  /// Calls of the family that begin where the model likes, in any text.
  std::string text_with_calls() {
    lines_ += fmt::format("lead[suffix=\"<tool_call>\"]: {}\n", kAnyText);
    const std::string text = rule("TEXT", without_calls());
    const std::string call = "(lead /\\n?/ " + objects("arguments") + " /\\n?/ \"</tool_call>\")";
    return call + (use_.parallel ? "* " : "? ") + text;
  }

  /// REQUIRES: the text is a schema, an object or `true`.
  std::string value(const GrammarText& text) {
    return rule("answer", json_of(OrderedJson::parse(text.source, nullptr, false)));
  }

  /// What calls nothing: harmony says it in a message of its own.
  std::string said(const std::string& body) const {
    if (style_.dialect != ToolDialect::harmony || style_.continues) return body;
    return mark("<|channel|>") + " \"final\" " + mark("<|message|>") + " " + body;
  }

  /// What the model may think first.
  std::string with_reasoning(const std::string& body) {
    if (style_.dialect == ToolDialect::harmony && style_.continues) return body;
    if (style_.dialect == ToolDialect::harmony) {
      return "(" + mark("<|channel|>") + " \"analysis\" " + mark("<|message|>") + " " + kAnyText +
             " " + mark("<|end|>") + " " + mark("<|start|>") + " \"assistant\")? " + body;
    }
    if (!style_.reasons) return body;
    switch (style_.thoughts) {
      case ThoughtMarks::channel:
        return thought(mark("<|channel>") + " \"thought\\n\"", "<channel|>") + body;
      case ThoughtMarks::cohere:
        return thought(mark("<|START_THINKING|>"), "<|END_THINKING|>") + body;
      case ThoughtMarks::seed:
        return thought(mark("<seed:think>"), "</seed:think>") + "/[\\n ]{0,4}/ " + body;
      case ThoughtMarks::mistral:
        return thought(mark("[THINK]"), "[/THINK]") + "/[\\n ]{0,4}/ " + body;
      case ThoughtMarks::tags:
        break;
    }
    const std::string rest = rest_of_thought("</think>") + " /[\\n ]{0,4}/";
    return (style_.begins_thinking ? rest : "(" + mark("<think>") + " " + rest + ")?") + " " + body;
  }

  /// What the model thinks, and then a text of any kind.
  GrammarText after_thought(const GrammarText& text) {
    return led_by(finish(with_reasoning(said("@answer"))).source, text);
  }

  GrammarText finish(const std::string& start) const {
    return {GrammarText::Kind::lark, "start: " + start + "\n" + lines_};
  }

 private:
  /// A token whose text is special, else the text.
  std::string mark(const std::string& text) const {
    const std::vector<TokenId> ids = tokenizer_.encode(text, {.parse_special = true});
    const bool is_special = ids.size() == 1 && tokenizer_.is_special(ids[0]);
    return is_special ? fmt::format("<[{}]>", ids[0]) : quoted(text);
  }

  std::string rule(const std::string& name, const std::string& body) {
    lines_ += name + ": " + body + "\n";
    return name;
  }

  template <typename Write>
  std::string each(Write&& write) {
    std::string all;
    for (const Tool& tool : use_.chosen) all += (all.empty() ? "" : " | ") + write(tool);
    return all;
  }

  std::string repeated(const std::string& more) const { return use_.parallel ? more : ""; }

  bool keeps_to_schema(const Tool& tool) const {
    return tool.strict || use_.choice == ToolUse::Choice::required;
  }

  std::string arguments(const Tool& tool) {
    return rule(
        fmt::format("arguments{}", next_++),
        json_of(object_schema(keeps_to_schema(tool) ? tool.parameters : OrderedJson::object())));
  }

  static void expect_few(const Tool& tool, std::size_t found, std::size_t most, const char* what) {
    if (found <= most) return;
    throw ApiError(
        400, "tools",
        fmt::format("tools: {}: expected at most {} {}, found {}", tool.name, most, what, found),
        "invalid_value");
  }

  /// NAME(KEY=VALUE, ...), the keys in the order of the schema, the values in JSON.
  std::string python_call(const Tool& tool) {
    return quoted(tool.name + "(") + " " + python_arguments(tool) + " \")\"";
  }

  std::string python_arguments(const Tool& tool) {
    const OrderedJson& schema = tool.parameters;
    const bool has_keys = schema.contains("properties") && schema["properties"].is_object();
    if (!keeps_to_schema(tool) || !has_keys) {
      const std::string any = rule(fmt::format("argument{}", next_++),
                                   "/[A-Za-z_][A-Za-z0-9_]{0,63}=/ " + json_of(true));
      return "(" + any + " (\", \" " + any + ")*)?";
    }
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
      const std::string argument = rule(fmt::format("argument{}", next_++),
                                        quoted(property.key() + "=") + " " + json_of(value));
      expect_few(tool, lines_.size(), kMostGrammarBytes, "bytes of schemas, shared ones each time");
      const std::string begun = argument + " " + more;
      const bool must = is_required(property.key());
      first = must ? begun : first.empty() ? "(" + begun + ")?" : begun + " | " + first;
      first = rule(fmt::format("first{}", next_++), first);
      more = must ? "\", \" " + begun : "(\", \" " + argument + ")? " + more;
      more = rule(fmt::format("more{}", next_++), more);
    }
    return first;
  }

  /// An object for each tool, with its arguments under `key`.
  std::string objects(const std::string& key, const std::string& begin = "{\"name\": ") {
    return "(" + each([&](const Tool& tool) {
             return quoted(begin + quoted(tool.name) + ", \"" + key + "\": ") + " " +
                    arguments(tool) + " \"}\"";
           }) +
           ")";
  }

  std::string tagged_calls(const std::string& begin, const std::string& end) {
    const std::string call = rule("call", begin + " " + objects("arguments") + " " + end);
    return call + repeated(" (\"\\n\" " + call + ")*");
  }

  /// Text that no call begins in.
  std::string without_calls() const {
    std::string marks;
    for (const std::string_view begin : call_marks_of(style_.dialect)) {
      marks += (marks.empty() ? "" : "|") + escaped(begin);
    }
    if (marks.empty()) return kAnyText;
    return fmt::format("{} & ~/(?s:.)*({})(?s:.)*/", kAnyText, marks);
  }

  std::string thought(const std::string& begin, const char* end) {
    return "(" + begin + " " + rest_of_thought(end) + ")? ";
  }

  /// From behind its mark on. A call would end it (answer_style.h), and any text would go on over
  /// an end that is no token.
  std::string rest_of_thought(const char* end) {
    const std::string text = rule("THOUGHT", without_calls());
    const std::string last = mark(end);
    if (last.front() != '"') return text + " " + last;
    lines_ += fmt::format("thought[suffix={}]: {}\n", last, text);
    return "thought";
  }

  std::string gemma_call(const char* begin, const char* end) {
    return mark(begin) + " \"call:\" (" +
           each([&](const Tool& tool) { return quoted(tool.name); }) + ") /\\{(?s:.)*\\}/ " +
           mark(end);
  }

  std::string deepseek_calls() {
    const bool has_fences = template_source().find("```json") != std::string::npos;
    const std::string sep = mark("<｜tool▁sep｜>");
    const std::string call =
        rule("call", mark("<｜tool▁call▁begin｜>") + " (" + each([&](const Tool& tool) {
                       return has_fences ? "\"function\" " + sep + " " +
                                               quoted(tool.name + "\n```json\n") + " " +
                                               arguments(tool) + " \"\\n```\""
                                         : quoted(tool.name) + " " + sep + " " + arguments(tool);
                     }) + ") " +
                         mark("<｜tool▁call▁end｜>"));
    const std::string between = has_fences ? " (\"\\n\" " + call + ")*" : " " + call + "*";
    return mark("<｜tool▁calls▁begin｜>") + " " + call + repeated(between) + " " +
           mark("<｜tool▁calls▁end｜>");
  }

  std::string mistral_calls() {
    const bool has_names = template_source().find("[ARGS]") != std::string::npos;
    if (has_names) {
      const std::string call =
          rule("call", mark("[TOOL_CALLS]") + " (" + each([&](const Tool& tool) {
                         return quoted(tool.name) + " " + mark("[ARGS]") + " " + arguments(tool);
                       }) + ")");
      return call + repeated(" " + call + "*");
    }
    return listed_calls("[TOOL_CALLS]");
  }

  std::string listed_calls(const char* begin) {
    const std::string call = rule("call", objects("arguments"));
    return mark(begin) + " \"[\" " + call + repeated(" (\", \" " + call + ")*") + " \"]\"";
  }

  std::string kimi_calls() {
    const std::string call =
        rule("call", mark("<|tool_call_begin|>") + " (" + each([&](const Tool& tool) {
                       return quoted("functions." + tool.name + ":") + " /[0-9]{1,4}/ " +
                              mark("<|tool_call_argument_begin|>") + " " + arguments(tool);
                     }) + ") " +
                         mark("<|tool_call_end|>"));
    return mark("<|tool_calls_section_begin|>") + " " + call + repeated(" " + call + "*") + " " +
           mark("<|tool_calls_section_end|>");
  }

  /// Of the template that chats with tools are written by.
  std::string template_source() const {
    const auto& of_tools = tokenizer_.tool_template();
    return of_tools ? *of_tools : tokenizer_.chat_template().value_or("");
  }

  const ToolUse& use_;
  const AnswerStyle& style_;
  const Tokenizer& tokenizer_;
  std::string lines_;
  int next_ = 0;
};

}  // namespace

std::optional<GrammarText> answer_grammar(const ToolUse& use, const AnswerStyle& style,
                                          const Tokenizer& tokenizer,
                                          const std::optional<GrammarText>& otherwise) {
  GrammarWriter writer(use, style, tokenizer);
  if (use.is_offered() && use.choice == ToolUse::Choice::required) {
    return writer.finish(writer.with_reasoning(writer.calls()));
  }
  const bool is_schema = otherwise && otherwise->kind == GrammarText::Kind::json_schema;
  if (is_schema && use.is_offered()) {
    const std::string calls = writer.calls();
    return writer.finish(
        writer.with_reasoning("(" + calls + " | " + writer.said(writer.value(*otherwise)) + ")"));
  }
  if (is_schema && has_lead(style)) {
    return writer.finish(writer.with_reasoning(writer.said(writer.value(*otherwise))));
  }
  if (otherwise && has_lead(style) && !spells_thought(*otherwise, style)) {
    return writer.after_thought(*otherwise);
  }
  if (otherwise) return otherwise;
  bool strict = false;
  for (const Tool& tool : use.chosen) strict = strict || tool.strict;
  if (use.is_offered() && strict && style.dialect == ToolDialect::hermes) {
    return writer.finish(writer.text_with_calls());
  }
  return std::nullopt;
}

}  // namespace talon
