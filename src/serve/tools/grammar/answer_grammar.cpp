#include <fmt/format.h>

#include <span>

#include "serve/tools/grammar/lark.h"
#include "serve/tools/grammar/python_grammar.h"
#include "serve/tools/tool_use.h"

namespace talon {
namespace {

/// Whether a mark in a grammar is a token, and so no part of any text.
bool is_mark_token(const std::string& mark) { return mark.front() == '<'; }

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
                     : style.thoughts == ThoughtMarks::hunyuan ? "think:opensource>"
                     : style.thoughts == ThoughtMarks::apertus ? "<|inner_suffix|>"
                                                               : "think>";
  return text.source.find(mark) != std::string::npos;
}

/// Writes what an answer must look like as rules of a Lark grammar.
class GrammarWriter {
 public:
  GrammarWriter(const ToolUse& use, const AnswerStyle& style, const Tokenizer& tokenizer)
      : use_(use), style_(style), tokenizer_(tokenizer) {}

  std::string calls() {
    if (style_.dialect == ToolDialect::harmony) return harmony_call();
    if (style_.dialect == ToolDialect::llama3) return objects("parameters");
    const std::string block = rule("calls", call_mark() + " " + behind_mark());
    const auto between = between_blocks();
    return between ? block + repeated(" (" + *between + block + ")*") : block;
  }

  /// Calls that begin where the model likes, in any text. A text goes on as far as it may, so that
  /// none follows another.
  std::string text_with_calls() {
    is_free_ = true;
    if (style_.dialect == ToolDialect::harmony) return messages_with_call();
    if (style_.dialect == ToolDialect::llama3) return with_reasoning(text_or_calls());
    const std::string text = rule("TEXT", without_calls()), inner = text_tokens();
    const std::string led = inner.empty() ? "" : rule("led", "(TEXT (" + inner + "))*") + " ";
    const std::string first = call_mark();
    std::string begin = led + text + " " + first;
    if (!is_mark_token(first)) {  // text would go on over it
      const auto marks = call_marks_of(style_.dialect);
      rules_.lines += fmt::format("lead[suffix={}]: {}\n", first,
                                  lark_text_without(std::span(marks).subspan(1)));
      begin = led + "lead";
    }
    return "(" + begin + " " + behind_mark() + ")" + (use_.parallel ? "* " : "? ") + led + text;
  }

  /// REQUIRES: the text is a schema, an object or `true`.
  std::string value(const GrammarText& text) {
    return rule("answer", lark_json(OrderedJson::parse(text.source, nullptr, false)));
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
      return "(" + mark("<|channel|>") + " \"analysis\" " + mark("<|message|>") + " " +
             kLarkAnyText + " " + mark("<|end|>") + " " + mark("<|start|>") + " \"assistant\")? " +
             body;
    }
    if (!style_.reasons) return body;
    const std::vector<std::string_view> marks = text_marks_of(style_);
    const std::string begin = mark(std::string(marks[0])), end(marks[1]);
    switch (style_.thoughts) {
      case ThoughtMarks::channel:
        return thought(begin + " \"thought\\n\"", end) + body;
      case ThoughtMarks::cohere:
        return thought(begin, end) + body;
      case ThoughtMarks::seed:
      case ThoughtMarks::mistral:
        return thought(begin, end) + "/[\\n ]{0,4}/ " + body;
      case ThoughtMarks::tags:
      case ThoughtMarks::hunyuan:
      case ThoughtMarks::apertus:
        break;
    }
    const std::string rest = rest_of_thought(end) + " /[\\n ]{0,4}/";
    return (style_.begins_thinking ? rest : "(" + begin + " " + rest + ")?") + " " + body;
  }

  /// What the model thinks, and then a text of any kind.
  GrammarText after_thought(const GrammarText& text) {
    return led_by(finish(with_reasoning(said("@answer"))).source, text);
  }

  GrammarText finish(const std::string& start) const {
    return {GrammarText::Kind::lark, "start: " + start + "\n" + rules_.lines};
  }

 private:
  /// A token whose text is special, else the text.
  std::string mark(const std::string& text) const {
    const std::vector<TokenId> ids = tokenizer_.encode(text, {.parse_special = true});
    const bool is_special = ids.size() == 1 && tokenizer_.is_special(ids[0]);
    return is_special ? fmt::format("<[{}]>", ids[0]) : lark_text(text);
  }

  std::string rule(const std::string& name, const std::string& body) {
    return rules_.add(name, body);
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
    return rules_.add_numbered(
        "arguments",
        lark_json(object_schema(keeps_to_schema(tool) ? tool.parameters : OrderedJson::object())));
  }

  /// An object for each tool, with its arguments under `key`.
  std::string objects(const std::string& key, const std::string& begin = "{\"name\": ") {
    return "(" + each([&](const Tool& tool) {
             return lark_text(begin + lark_text(tool.name) + ", \"" + key + "\": ") + " " +
                    arguments(tool) + " \"}\"";
           }) +
           ")";
  }

  /// {NAME: ARGUMENTS} for each tool.
  std::string keyed_objects() {
    return "(" + each([&](const Tool& tool) {
             return lark_text("{" + lark_text(tool.name) + ": ") + " " + arguments(tool) + " \"}\"";
           }) +
           ")";
  }

  std::string python_calls() {
    return each([&](const Tool& tool) { return python_call(tool, keeps_to_schema(tool), rules_); });
  }

  /// The first mark of calls. Of a family that has none, Hermes'.
  std::string call_mark() const {
    const auto marks = call_marks_of(style_.dialect);
    return mark(marks.empty() ? "<tool_call>" : std::string(marks.front()));
  }

  /// What stands between calls that have a mark each; nothing: one mark is before them all.
  std::optional<std::string> between_blocks() const {
    switch (style_.dialect) {
      case ToolDialect::none:
      case ToolDialect::hermes:
      case ToolDialect::seed:
      case ToolDialect::minimax:
        return "\"\\n\" ";
      case ToolDialect::mistral:
        if (has_named_calls()) return "";
        return std::nullopt;
      case ToolDialect::gemma4:
        return "";
      default:
        return std::nullopt;
    }
  }

  /// From behind the mark on, to where text may follow.
  std::string behind_mark() {
    switch (style_.dialect) {
      case ToolDialect::none:
      case ToolDialect::hermes:
        return tagged_call(mark("</tool_call>"));
      case ToolDialect::seed:
        return tagged_call(mark("</seed:tool_call>"));
      case ToolDialect::minimax:
        return tagged_call(mark("</minimax:tool_call>"));
      case ToolDialect::hunyuan:
        return hunyuan_calls("");
      case ToolDialect::hunyuan_open:
        return hunyuan_calls(":opensource");
      case ToolDialect::mistral:
        return has_named_calls() ? named_call() : list(objects("arguments"));
      case ToolDialect::functiongemma:
        return gemma_call("<end_function_call>");
      case ToolDialect::gemma4:
        return gemma_call("<tool_call|>");
      case ToolDialect::cohere:
        return list(objects("parameters", "{\"tool_call_id\": \"0\", \"tool_name\": ")) + " " +
               mark("<|END_ACTION|>");
      case ToolDialect::deepseek:
        return deepseek_calls();
      case ToolDialect::granite: {
        const bool has_end =
            is_free_ && template_source().find("<|/tool_call|>") != std::string::npos;
        return list(objects("arguments")) + (has_end ? " " + mark("<|/tool_call|>") + "?" : "");
      }
      case ToolDialect::nemotron:
        return list(objects("arguments")) + " " + mark("</TOOLCALL>");
      case ToolDialect::tool_calls:
        return list(objects("arguments")) + " " + mark("</tool_calls>");
      case ToolDialect::apertus:
        return list(keyed_objects()) + " " + mark("<|tools_suffix|>");
      case ToolDialect::lfm2:
        return list("(" + python_calls() + ")") + " " + mark("<|tool_call_end|>");
      case ToolDialect::kimi:
        return kimi_calls();
      case ToolDialect::olmo: {
        const std::string call = rule("call", python_calls());
        return space() + call + repeated(" (\"\\n\" " + call + ")*") + " " + space() +
               mark("</function_calls>");
      }
      case ToolDialect::harmony:
      case ToolDialect::llama3:
        break;
    }
    return "";
  }

  /// What a model that begins calls where it likes may write beside them.
  std::string space() const { return is_free_ ? "/[ \\n]?/ " : ""; }

  std::string tagged_call(const std::string& end) {
    const std::string line = is_free_ ? " /\\n?/ " : " \"\\n\" ";
    return line.substr(1) + objects("arguments") + line + end;
  }

  std::string list(const std::string& object) {
    const std::string call = rule("call", object);
    return space() + "\"[\" " + call + repeated(" (\", \" " + call + ")*") + " \"]\"";
  }

  std::string harmony_call() {
    return mark("<|channel|>") + " \"commentary to=functions.\" (" + each([&](const Tool& tool) {
             return lark_text(tool.name + " ") + " " + mark("<|constrain|>") + " \"json\" " +
                    mark("<|message|>") + " " + arguments(tool);
           }) +
           ")";
  }

  /// Messages, of which the last may be a call.
  std::string messages_with_call() {
    const std::string message =
        rule("message", mark("<|channel|>") + " /analysis|commentary|final/ " +
                            mark("<|message|>") + " " + kLarkAnyText);
    const std::string next = mark("<|end|>") + " " + mark("<|start|>") + " \"assistant\"";
    const std::string all =
        "(" + message + " " + next + ")* (" + message + " | " + harmony_call() + ")";
    return style_.continues ? kLarkAnyText + (" (" + next + " " + all + ")?") : all;
  }

  /// An answer of Llama's without a mark: calls alone, or text that is read as none
  /// (llama3_reader.cpp).
  std::string text_or_calls() {
    std::string names;
    for (const Tool& tool : use_.tools) {
      names += (names.empty() ? "" : "|") + lark_escaped(tool.name);
    }
    const char* any_key = R"~( & ~/\s*\{([^{}\[\]]*,)?\s*"(tool_)?name"\s*:\s*"()~";
    const char* first_key =
        R"~( & ~/\s*\{\s*("type"\s*:\s*"function"\s*,\s*)?"(parameters|arguments)"\s*:(?s:.)*/)~";
    std::string text = without_calls() + any_key + names + ")\"(?s:.)*/" + first_key;
    if (style_.reasons && !style_.begins_thinking) {
      text += " & ~/\\s*" + lark_escaped(text_marks_of(style_).front()) + "(?s:.)*/";
    }
    const std::string call =
        rule("call", each([&](const Tool& tool) {
               return R"~(/\s{0,4}\{\s?("type":\s?"function",\s?)?"name":\s?")~" +
                      lark_escaped(tool.name) + R"~(",\s?"parameters":\s?/ )~" + arguments(tool) +
                      " \"}\"";
             }));
    const bool is_fourth = template_source().find("<|python_start|>") != std::string::npos;
    const std::string tag = mark(is_fourth ? "<|python_start|>" : "<|python_tag|>") + "? ";
    return "(" + rule("TEXT", text) + " | " + tag + call + repeated(" (\";\" " + call + ")*") + ")";
  }

  /// The tokens that mark what is thought or said.
  std::string text_tokens() const {
    std::string tokens;
    for (const std::string_view text : text_marks_of(style_)) {
      const std::string token = mark(std::string(text));
      if (is_mark_token(token)) tokens += (tokens.empty() ? "" : " | ") + token;
    }
    return tokens;
  }

  /// Text that no call begins in.
  std::string without_calls() const { return lark_text_without(call_marks_of(style_.dialect)); }

  std::string thought(const std::string& begin, const std::string& end) {
    const std::string rest = rest_of_thought(end);
    return style_.begins_thinking ? rest + " " : "(" + begin + " " + rest + ")? ";
  }

  /// From behind its mark on. A call would end it (answer_style.h), and any text would go on over
  /// an end that is no token.
  std::string rest_of_thought(const std::string& end) {
    const std::string text = rule("THOUGHT", without_calls());
    const std::string last = mark(end);
    if (is_mark_token(last)) return text + " " + last;
    rules_.lines += fmt::format("thought[suffix={}]: {}\n", last, text);
    return "thought";
  }

  /// Values as the family writes them, of strict functions in JSON.
  std::string gemma_call(const char* end) {
    const std::string any = "/\\{(?s:.)*\\}/", last = mark(end);
    std::string values = any + " " + last;
    if (!is_mark_token(last)) {  // they would go on over it
      rules_.lines += fmt::format("values[suffix={}]: {}\n", last, any);
      values = "values";
    }
    return "\"call:\" (" + each([&](const Tool& tool) {
             return lark_text(tool.name) + " " +
                    (tool.strict ? arguments(tool) + " " + last : values);
           }) +
           ")";
  }

  std::string deepseek_calls() {
    const bool has_fences = template_source().find("```json") != std::string::npos;
    const std::string sep = mark("<｜tool▁sep｜>");
    const std::string call =
        rule("call", mark("<｜tool▁call▁begin｜>") + " (" + each([&](const Tool& tool) {
                       return has_fences ? "\"function\" " + sep + " " +
                                               lark_text(tool.name + "\n```json\n") + " " +
                                               arguments(tool) + " \"\\n```\""
                                         : lark_text(tool.name) + " " + sep + " " + arguments(tool);
                     }) + ") " +
                         mark("<｜tool▁call▁end｜>"));
    const std::string between = has_fences ? " (\"\\n\" " + call + ")*" : " " + call + "*";
    return call + repeated(between) + " " + mark("<｜tool▁calls▁end｜>");
  }

  /// suffix: of the names of tags. The parameters, as tags in some of the family, are JSON.
  std::string hunyuan_calls(const std::string& suffix) {
    const bool has_sep =
        !suffix.empty() || template_source().find("<tool_sep>") != std::string::npos;
    const std::string sep = mark("<tool_sep" + suffix + ">");
    const std::string call =
        rule("call", mark("<tool_call" + suffix + ">") + " (" + each([&](const Tool& tool) {
                       return has_sep ? lark_text(tool.name) + " " + sep + " \"\\n\" " +
                                            arguments(tool) + " \"\\n\""
                                      : lark_text(tool.name + "\n```json\n") + " " +
                                            arguments(tool) + " \"\\n```\"";
                     }) + ") " +
                         mark("</tool_call" + suffix + ">"));
    const std::string line = is_free_ ? "/\\n?/ " : has_sep ? "\"\\n\" " : "";
    return line + call + repeated(" (\"\\n\" " + call + ")*") + " " + line +
           mark("</tool_calls" + suffix + ">");
  }

  bool has_named_calls() const { return template_source().find("[ARGS]") != std::string::npos; }

  std::string named_call() {
    return "(" + each([&](const Tool& tool) {
             return lark_text(tool.name) + " " + mark("[ARGS]") + " " + arguments(tool);
           }) +
           ")";
  }

  std::string kimi_calls() {
    const std::string call =
        rule("call", mark("<|tool_call_begin|>") + " (" + each([&](const Tool& tool) {
                       return lark_text("functions." + tool.name + ":") + " /[0-9]{1,4}/ " +
                              mark("<|tool_call_argument_begin|>") + " " + arguments(tool);
                     }) + ") " +
                         mark("<|tool_call_end|>"));
    return call + repeated(" " + call + "*") + " " + mark("<|tool_calls_section_end|>");
  }

  /// Of the template that chats with tools are written by.
  std::string template_source() const {
    const auto& of_tools = tokenizer_.tool_template();
    return of_tools ? *of_tools : tokenizer_.chat_template().value_or("");
  }

  const ToolUse& use_;
  const AnswerStyle& style_;
  const Tokenizer& tokenizer_;
  LarkRules rules_;
  bool is_free_ = false;  // to call or not
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
  if (use.is_offered() && strict && style.dialect != ToolDialect::none) {
    return writer.finish(writer.text_with_calls());
  }
  return std::nullopt;
}

}  // namespace talon
