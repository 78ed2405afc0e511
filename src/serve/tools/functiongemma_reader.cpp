#include <optional>

#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"
#include "text/chat_template.h"

namespace talon {
namespace {

constexpr std::string_view kGemmaBegin = "<start_function_call>", kGemmaEnd = "<end_function_call>";
constexpr std::string_view kCall = "call:", kQuote = "<escape>";
constexpr int kDeepest = 64;

/// Values as the family writes them: <escape>text<escape>, {key:value,...}, [value,...], words.
class ValueParser {
 public:
  explicit ValueParser(std::string_view text) : text_(text) {}

  std::optional<OrderedJson> value(int depth = 0) {
    if (depth > kDeepest) return std::nullopt;
    if (text_.starts_with(kQuote)) return quoted();
    if (eat("{")) return object(depth);
    if (eat("[")) return list(depth);
    const std::string word(text_.substr(0, text_.find_first_of(",}]")));
    text_.remove_prefix(word.size());
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
    text_.remove_prefix(kQuote.size());
    const std::size_t end = text_.find(kQuote);
    if (end == std::string_view::npos) return std::nullopt;
    OrderedJson json = std::string(text_.substr(0, end));
    text_.remove_prefix(end + kQuote.size());
    return json;
  }
  std::optional<OrderedJson> object(int depth) {
    OrderedJson json = OrderedJson::object();
    while (!eat("}")) {
      const std::size_t colon = text_.find(':');
      if (colon == std::string_view::npos) return std::nullopt;
      const std::string key(text_.substr(0, colon));
      text_.remove_prefix(colon + 1);
      auto inner = value(depth + 1);
      if (!inner) return std::nullopt;
      json[key] = *std::move(inner);
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

  std::string_view text_;
};

class FunctionGemmaReader final : public AnswerReader {
 public:
  void read(std::string_view text, Parts& parts) override {
    pending_ += text;
    while (true) {
      const MarkSearch found = find_mark(pending_, {in_call_ ? &kGemmaEnd : &kGemmaBegin, 1});
      if (!in_call_) {
        content_.say(std::string_view(pending_).substr(0, found.begin), parts);
        pending_.erase(0, found.begin);
      }
      if (found.mark < 0) return;
      if (in_call_) end_call(std::string_view(pending_).substr(0, found.begin), parts);
      pending_.erase(0, in_call_ ? found.begin + kGemmaEnd.size() : kGemmaBegin.size());
      in_call_ = !in_call_;
    }
  }

  void finish(Parts& parts) override {
    if (in_call_) {  // the end mark ends the answer, or the answer was cut
      end_call(pending_, parts);
    } else {
      content_.say(pending_, parts);
    }
    content_.finish(parts);
    pending_.clear();
  }

 private:
  void end_call(std::string_view text, Parts& parts) {
    const std::size_t brace = text.find('{');
    if (text.starts_with(kCall) && brace != std::string_view::npos) {
      ValueParser parser(text.substr(brace));
      const auto arguments = parser.value();
      if (arguments && parser.at_end()) {
        content_.call();
        tell(parts, AnswerPart::Kind::call, text.substr(kCall.size(), brace - kCall.size()));
        tell(parts, AnswerPart::Kind::arguments,
             arguments->dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
        return;
      }
    }
    content_.say(std::string(kGemmaBegin) + std::string(text) + std::string(kGemmaEnd), parts);
  }

  std::string pending_;
  bool in_call_ = false;
  Content content_;
};

}  // namespace

std::unique_ptr<AnswerReader> make_functiongemma_reader() {
  return std::make_unique<FunctionGemmaReader>();
}

}  // namespace talon
