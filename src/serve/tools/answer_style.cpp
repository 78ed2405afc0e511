#include "serve/tools/answer_style.h"

#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"

namespace talon {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";

bool has(std::string_view source, std::string_view text) {
  return source.find(text) != std::string_view::npos;
}

class PlainReader final : public AnswerReader {
 public:
  void read(std::string_view text, Parts& parts) override {
    tell(parts, AnswerPart::Kind::content, text);
  }
  void finish(Parts&) override {}
};

class ReasoningReader final : public AnswerReader {
 public:
  ReasoningReader(std::unique_ptr<AnswerReader> rest, bool begins_thinking)
      : rest_(std::move(rest)), place_(begins_thinking ? Place::thinks : Place::start) {}

  void read(std::string_view text, Parts& parts) override {
    pending_ += text;
    while (advance(parts)) {
    }
  }

  void finish(Parts& parts) override {
    if (place_ == Place::thinks) {
      tell(parts, AnswerPart::Kind::reasoning, pending_);
    } else {
      rest_->read(pending_, parts);
    }
    pending_.clear();
    rest_->finish(parts);
  }

 private:
  enum class Place { start, thinks, after, says };

  bool advance(Parts& parts) {
    const std::size_t space = leading_space(pending_);
    const std::string_view begin = std::string_view(pending_).substr(space);
    switch (place_) {
      case Place::start:
        if (begin.empty() || (begin.size() < kThink.size() && kThink.starts_with(begin))) {
          return false;
        }
        place_ = begin.starts_with(kThink) ? Place::thinks : Place::says;
        if (place_ == Place::thinks) pending_.erase(0, space + kThink.size());
        return true;
      case Place::thinks:
        return think(parts);
      case Place::after:
        if (begin.empty()) return false;
        pending_.erase(0, space);
        place_ = Place::says;
        return true;
      case Place::says:
        rest_->read(pending_, parts);
        pending_.clear();
        return false;
    }
    return false;
  }

  /// White space at either end of a thought is none of it.
  bool think(Parts& parts) {
    if (!has_thought_) pending_.erase(0, leading_space(pending_));
    const MarkSearch found = find_mark(pending_, {&kThinkEnd, 1});
    std::size_t end = found.begin;
    while (end > 0 && is_space(pending_[end - 1])) --end;
    has_thought_ = has_thought_ || end > 0;
    tell(parts, AnswerPart::Kind::reasoning, std::string_view(pending_).substr(0, end));
    pending_.erase(0, found.mark < 0 ? end : found.begin + kThinkEnd.size());
    if (found.mark < 0) return false;
    place_ = Place::after;
    return true;
  }

  std::unique_ptr<AnswerReader> rest_;
  Place place_;
  std::string pending_;
  bool has_thought_ = false;
};

}  // namespace

bool AnswerStyle::shows_special() const { return dialect != ToolDialect::none || reasons; }

bool knows_tools(std::string_view template_source) { return has(template_source, "tools"); }

ToolDialect dialect_of(std::string_view source) {
  if (has(source, "<|channel|>") && has(source, "functions.")) return ToolDialect::harmony;
  if (has(source, "<start_function_call>")) return ToolDialect::functiongemma;
  if (has(source, "[TOOL_CALLS]")) return ToolDialect::mistral;
  if (has(source, "<tool_call>")) return ToolDialect::hermes;
  const bool is_llama = has(source, "<|python_tag|>") || has(source, "<|eom_id|>") ||
                        (has(source, "ipython") && has(source, "parameters"));
  return is_llama ? ToolDialect::llama3 : ToolDialect::hermes;
}

bool marks_reasoning(std::string_view template_source) {
  return has(template_source, kThinkEnd) || has(template_source, kThink);
}

std::unique_ptr<AnswerReader> make_reasoning_reader(std::unique_ptr<AnswerReader> rest,
                                                    bool begins_thinking) {
  return std::make_unique<ReasoningReader>(std::move(rest), begins_thinking);
}

std::unique_ptr<AnswerReader> make_reader(const AnswerStyle& style) {
  std::unique_ptr<AnswerReader> reader;
  switch (style.dialect) {
    case ToolDialect::none:
      reader = std::make_unique<PlainReader>();
      break;
    case ToolDialect::hermes:
      reader = make_hermes_reader();
      break;
    case ToolDialect::llama3:
      reader = make_llama3_reader(style.tools);
      break;
    case ToolDialect::mistral:
      reader = make_mistral_reader();
      break;
    case ToolDialect::harmony:
      reader = make_harmony_reader(style.continues);
      break;
    case ToolDialect::functiongemma:
      reader = make_functiongemma_reader();
      break;
  }
  if (!style.reasons) return reader;
  return make_reasoning_reader(std::move(reader), style.begins_thinking);
}

ReadAnswer joined(const AnswerReader::Parts& parts) {
  ReadAnswer answer;
  for (const AnswerPart& part : parts) {
    switch (part.kind) {
      case AnswerPart::Kind::content:
        answer.content += part.text;
        break;
      case AnswerPart::Kind::reasoning:
        answer.reasoning += part.text;
        break;
      case AnswerPart::Kind::call:
        answer.calls.push_back({part.text, ""});
        break;
      case AnswerPart::Kind::arguments:
        if (!answer.calls.empty()) answer.calls.back().arguments += part.text;
        break;
    }
  }
  return answer;
}

}  // namespace talon
