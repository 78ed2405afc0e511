#include "serve/tools/python_calls.h"

#include <optional>
#include <string>

#include "serve/tools/json_call.h"
#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"
#include "serve/tools/tool_use.h"
#include "serve/tools/whole_call_reader.h"
#include "text/chat_template.h"

namespace talon {
namespace {

constexpr int kDeepestLiteral = 64;

/// Reads from the front of a text. What returns nothing has found something else.
class PythonParser {
 public:
  explicit PythonParser(std::string_view text) : text_(text) {}

  std::vector<ReadAnswer::Call> calls() {
    std::vector<ReadAnswer::Call> all;
    const bool is_list = eat('[');
    while (is_list ? !eat(']') : !at_end()) {
      auto one = call();
      if (!one) return {};
      all.push_back(*std::move(one));
      if (is_list && !eat(',') && !sees(']')) return {};
    }
    return at_end() ? all : std::vector<ReadAnswer::Call>();
  }

 private:
  bool at_end() {
    skip_space();
    return text_.empty();
  }
  void skip_space() { text_.remove_prefix(leading_space(text_)); }
  bool sees(char expected) {
    skip_space();
    return text_.starts_with(expected);
  }
  bool eat(char expected) {
    if (!sees(expected)) return false;
    text_.remove_prefix(1);
    return true;
  }

  /// A name of a function or a parameter, or a word: what stands before the next mark.
  std::string_view word() {
    skip_space();
    const std::string_view found = text_.substr(0, text_.find_first_of("()[]{}=,:'\" \t\r\n"));
    text_.remove_prefix(found.size());
    return found;
  }

  std::optional<ReadAnswer::Call> call() {
    const std::string name(word());
    if (name.empty() || !eat('(')) return std::nullopt;
    OrderedJson arguments = OrderedJson::object();
    while (!eat(')')) {
      const std::string key(word());
      if (key.empty() || !eat('=')) return std::nullopt;
      auto inner = value(0);
      if (!inner) return std::nullopt;
      arguments[key] = *std::move(inner);
      if (!eat(',') && !sees(')')) return std::nullopt;
    }
    return ReadAnswer::Call{name,
                            arguments.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)};
  }

  std::optional<OrderedJson> value(int depth) {
    if (depth > kDeepestLiteral) return std::nullopt;
    if (sees('"') || sees('\'')) return quoted();
    if (eat('[')) return list(']', depth);
    if (eat('(')) return list(')', depth);
    if (eat('{')) return object(depth);
    const std::string_view text = word();
    if (text == "True" || text == "False") return text == "True";
    if (text == "None") return nullptr;
    OrderedJson json = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) return std::nullopt;
    return json;
  }

  /// A tuple is a list.
  std::optional<OrderedJson> list(char end, int depth) {
    OrderedJson json = OrderedJson::array();
    while (!eat(end)) {
      auto inner = value(depth + 1);
      if (!inner) return std::nullopt;
      json.push_back(*std::move(inner));
      if (!eat(',') && !sees(end)) return std::nullopt;
    }
    return json;
  }

  std::optional<OrderedJson> object(int depth) {
    OrderedJson json = OrderedJson::object();
    while (!eat('}')) {
      const auto key = sees('"') || sees('\'') ? quoted() : std::nullopt;
      if (!key || !eat(':')) return std::nullopt;
      auto inner = value(depth + 1);
      if (!inner) return std::nullopt;
      json[*key] = *std::move(inner);
      if (!eat(',') && !sees('}')) return std::nullopt;
    }
    return json;
  }

  /// Made a text of JSON, which has the same escapes but for \' and \xNN.
  std::optional<std::string> quoted() {
    const char quote = text_.front();
    std::string json = "\"";
    std::size_t at = 1;
    for (; at < text_.size() && text_[at] != quote; ++at) {
      const char c = text_[at];
      if (c == '\\' && at + 1 < text_.size()) {
        const char escaped = text_[++at];
        json += escaped == '\'' ? "'" : escaped == 'x' ? "\\u00" : std::string{'\\', escaped};
      } else if (c == '"') {
        json += "\\\"";
      } else if (static_cast<unsigned char>(c) < 0x20) {
        json += OrderedJson(std::string(1, c)).dump().substr(1);
        json.pop_back();
      } else {
        json += c;
      }
    }
    if (at >= text_.size()) return std::nullopt;
    text_.remove_prefix(at + 1);
    const OrderedJson text = OrderedJson::parse(json + '"', nullptr, /*allow_exceptions=*/false);
    if (!text.is_string()) return std::nullopt;
    return text.get<std::string>();
  }

  std::string_view text_;
};

/// A list of calls or, of a model that was asked for them, of objects.
std::vector<ReadAnswer::Call> read_lfm2_calls(std::string_view text) {
  std::vector<ReadAnswer::Call> calls = read_python_calls(text);
  if (!calls.empty()) return calls;
  const OrderedJson holder = object_in("{\"calls\": " + std::string(text) + "}");
  if (holder.is_null() || !holder["calls"].is_array()) return {};
  for (const OrderedJson& object : holder["calls"]) {
    auto call = call_of_object(object);
    if (!call) return {};
    calls.push_back(*std::move(call));
  }
  return calls;
}

}  // namespace

std::vector<ReadAnswer::Call> read_python_calls(std::string_view text) {
  return PythonParser(text).calls();
}

std::unique_ptr<AnswerReader> make_lfm2_reader() {
  return std::make_unique<WholeCallReader>("<|tool_call_start|>", "<|tool_call_end|>",
                                           read_lfm2_calls,
                                           std::vector<std::string_view>{"<|tool_call_end|>"});
}

std::unique_ptr<AnswerReader> make_olmo_reader() {
  return std::make_unique<WholeCallReader>("<function_calls>", "</function_calls>",
                                           read_python_calls);
}

}  // namespace talon
