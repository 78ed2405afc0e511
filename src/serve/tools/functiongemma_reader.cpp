#include <optional>

#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"
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

/// Values as the family writes them: <escape>text<escape>, {key:value,...}, [value,...], words.
class ValueParser {
 public:
  ValueParser(std::string_view text, std::string_view quote) : text_(text), quote_(quote) {}

  std::optional<OrderedJson> value(int depth = 0) {
    if (depth > kDeepest) return std::nullopt;
    if (text_.starts_with(quote_)) return quoted();
    if (eat("{")) return object(depth);
    if (eat("[")) return list(depth);
    const std::string word(text_.substr(0, text_.find_first_of(",}]")));
    text_.remove_prefix(word.size());
    if (word == "None") return nullptr;  // as templates print it
    OrderedJson json = OrderedJson::parse(word, nullptr, /*allow_exceptions=*/false);
    return json.is_discarded() ? OrderedJson(word) : json;
  }
  bool at_end() const { return text_.empty(); }

 private:
  bool eat(std::string_view expected) {
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
    if (text_.starts_with(quote_)) {
      const auto text = quoted();
      if (!text || !eat(":")) return std::nullopt;
      return text->get<std::string>();
    }
    const std::size_t colon = text_.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    std::string name(text_.substr(0, colon));
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

class FunctionGemmaReader final : public AnswerReader {
 public:
  explicit FunctionGemmaReader(const GemmaMarks& marks) : marks_(marks) {}

  void read(std::string_view text, Parts& parts) override {
    pending_ += text;
    while (true) {
      const MarkSearch found = find_mark(pending_, {in_call_ ? &marks_.end : &marks_.begin, 1});
      if (!in_call_) {
        content_.say(std::string_view(pending_).substr(0, found.begin), parts);
        pending_.erase(0, found.begin);
      }
      if (found.mark < 0) return;
      if (in_call_) end_call(std::string_view(pending_).substr(0, found.begin), marks_.end, parts);
      pending_.erase(0, in_call_ ? found.begin + marks_.end.size() : marks_.begin.size());
      in_call_ = !in_call_;
    }
  }

  void finish(Parts& parts) override {
    if (in_call_) {  // the end mark ends the answer, or the answer was cut
      end_call(pending_, "", parts);
    } else {
      content_.say(pending_, parts);
    }
    content_.finish(parts);
    pending_.clear();
  }

 private:
  void end_call(std::string_view text, std::string_view end, Parts& parts) {
    const std::size_t brace = text.find('{');
    if (text.starts_with(kCall) && brace != std::string_view::npos) {
      ValueParser parser(text.substr(brace), marks_.quote);
      const auto arguments = parser.value();
      if (arguments && parser.at_end()) {
        content_.call();
        tell(parts, AnswerPart::Kind::call, text.substr(kCall.size(), brace - kCall.size()));
        tell(parts, AnswerPart::Kind::arguments,
             arguments->dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
        return;
      }
    }
    content_.say(std::string(marks_.begin).append(text).append(end), parts);
  }

  const GemmaMarks& marks_;
  std::string pending_;
  bool in_call_ = false;
  Content content_;
};

}  // namespace

std::unique_ptr<AnswerReader> make_functiongemma_reader() {
  return std::make_unique<FunctionGemmaReader>(kFunctionGemma);
}

std::unique_ptr<AnswerReader> make_gemma4_reader() {
  return std::make_unique<FunctionGemmaReader>(kGemma4);
}

}  // namespace talon
