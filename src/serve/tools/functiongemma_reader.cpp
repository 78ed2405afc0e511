#include <optional>

#include "serve/tools/readers.h"
#include "serve/tools/tool_use.h"
#include "serve/tools/whole_call_reader.h"
#include "text/chat_template.h"

namespace talon {
namespace {

struct GemmaMarks {
  std::string_view begin, end;  // of a call
  std::string_view quote;       // at both ends of a text
};
constexpr GemmaMarks kFunctionGemma = {"<start_function_call>", "<end_function_call>", "<escape>"};
constexpr GemmaMarks kGemma4 = {"<|tool_call>", "<tool_call|>", "<|\"|>"};
constexpr std::string_view kCall = "call:";
constexpr int kDeepest = 64;

/// Values as the family writes them: <escape>text<escape>, {key:value,...}, [value,...], words;
/// white space may stand around each.
class ValueParser {
 public:
  ValueParser(std::string_view text, std::string_view quote) : text_(text), quote_(quote) {}

  std::optional<OrderedJson> value(int depth = 0) {
    if (depth > kDeepest) return std::nullopt;
    pass_space();
    if (text_.starts_with(quote_)) return quoted();
    if (eat("{")) return object(depth);
    if (eat("[")) return list(depth);
    const std::string_view all = text_.substr(0, text_.find_first_of(",}]"));
    text_.remove_prefix(all.size());
    const std::string word(trimmed(all));
    if (word == "None") return nullptr;  // as templates print it
    OrderedJson json = OrderedJson::parse(word, nullptr, /*allow_exceptions=*/false);
    return json.is_discarded() ? OrderedJson(word) : json;
  }
  bool at_end() const { return text_.empty(); }

 private:
  void pass_space() { text_.remove_prefix(leading_space(text_)); }
  bool eat(std::string_view expected) {
    pass_space();
    if (!text_.starts_with(expected)) return false;
    text_.remove_prefix(expected.size());
    return true;
  }
  std::optional<OrderedJson> quoted() {
    text_.remove_prefix(quote_.size());
    const std::size_t end = text_.find(quote_);
    if (end == std::string_view::npos) return std::nullopt;
    OrderedJson json = std::string(text_.substr(0, end));
    text_.remove_prefix(end + quote_.size());
    return json;
  }
  /// A name, in quotes or not.
  std::optional<std::string> key() {
    pass_space();
    if (text_.starts_with(quote_)) {
      const auto text = quoted();
      if (!text || !eat(":")) return std::nullopt;
      return text->get<std::string>();
    }
    const std::size_t colon = text_.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    std::string name(trimmed(text_.substr(0, colon)));
    text_.remove_prefix(colon + 1);
    return name;
  }
  std::optional<OrderedJson> object(int depth) {
    OrderedJson json = OrderedJson::object();
    while (!eat("}")) {
      const auto name = key();
      auto inner = name ? value(depth + 1) : std::nullopt;
      if (!inner) return std::nullopt;
      json[*name] = *std::move(inner);
      if (!eat(",") && !text_.starts_with('}')) return std::nullopt;
    }
    return json;
  }
  std::optional<OrderedJson> list(int depth) {
    OrderedJson json = OrderedJson::array();
    while (!eat("]")) {
      auto inner = value(depth + 1);
      if (!inner) return std::nullopt;
      json.push_back(*std::move(inner));
      if (!eat(",") && !text_.starts_with(']')) return std::nullopt;
    }
    return json;
  }

  std::string_view text_, quote_;
};

/// `call:NAME{...}`: values as the family writes them, or JSON.
WholeCallReader::Calls read_call(std::string_view text, std::string_view quote) {
  text = trimmed(text);
  const std::size_t brace = text.find('{');
  if (!text.starts_with(kCall) || brace == std::string_view::npos) return {};
  const std::string name(trimmed(text.substr(kCall.size(), brace - kCall.size())));
  const std::string values(text.substr(brace));
  // Of strict functions they are JSON, which what the family writes never is.
  if (!object_in(values).is_null()) return {{name, values}};
  ValueParser parser(values, quote);
  const auto arguments = parser.value();
  if (!arguments || !parser.at_end()) return {};
  return {{name, arguments->dump(-1, ' ', false, OrderedJson::error_handler_t::replace)}};
}

std::unique_ptr<AnswerReader> make_reader(const GemmaMarks& marks) {
  return std::make_unique<WholeCallReader>(marks.begin, marks.end, [&marks](std::string_view text) {
    return read_call(text, marks.quote);
  });
}

}  // namespace

std::unique_ptr<AnswerReader> make_functiongemma_reader() { return make_reader(kFunctionGemma); }

std::unique_ptr<AnswerReader> make_gemma4_reader() { return make_reader(kGemma4); }

}  // namespace talon
