#include "serve/tools/answer_style.h"

#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"

namespace talon {
namespace {

struct Marks {
  std::string_view begin, end;
  std::string_view name;  // that may follow the first
};
constexpr Marks kTags = {"<think>", "</think>", ""};
constexpr Marks kChannel = {"<|channel>", "<channel|>", "thought"};
constexpr Marks kCohere = {"<|START_THINKING|>", "<|END_THINKING|>", ""};
constexpr Marks kSeed = {"<seed:think>", "</seed:think>", ""};
constexpr Marks kMistralThought = {"[THINK]", "[/THINK]", ""};
constexpr std::string_view kResponseBegin = "<response>", kResponseEnd = "</response>";

const Marks& marks_of(ThoughtMarks kind) {
  switch (kind) {
    case ThoughtMarks::channel:
      return kChannel;
    case ThoughtMarks::cohere:
      return kCohere;
    case ThoughtMarks::seed:
      return kSeed;
    case ThoughtMarks::mistral:
      return kMistralThought;
    default:
      return kTags;
  }
}

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

/// Leaves out the calls after the first.
class OneCallReader final : public AnswerReader {
 public:
  explicit OneCallReader(std::unique_ptr<AnswerReader> rest) : rest_(std::move(rest)) {}

  void read(std::string_view text, Parts& parts) override {
    Parts news;
    rest_->read(text, news);
    pass(news, parts);
  }
  void finish(Parts& parts) override {
    Parts news;
    rest_->finish(news);
    pass(news, parts);
  }

 private:
  void pass(const Parts& news, Parts& parts) {
    for (const AnswerPart& part : news) {
      const bool is_call = part.kind == AnswerPart::Kind::call;
      if (is_call) ++calls_;
      const bool of_call = is_call || part.kind == AnswerPart::Kind::arguments;
      if (!of_call || calls_ < 2) tell(parts, part.kind, part.text);
    }
  }

  std::unique_ptr<AnswerReader> rest_;
  int calls_ = 0;
};

class ReasoningReader final : public AnswerReader {
 public:
  ReasoningReader(std::unique_ptr<AnswerReader> rest, const AnswerStyle& style)
      : rest_(std::move(rest)),
        marks_(marks_of(style.thoughts)),
        ends_(call_marks_of(style.dialect)),
        tags_response_(style.tags_response),
        place_(style.begins_thinking ? Place::thinks : Place::start) {
    ends_.insert(ends_.begin(), marks_.end);
  }

  void read(std::string_view text, Parts& parts) override {
    pending_ += text;
    while (advance(parts)) {
    }
  }

  void finish(Parts& parts) override {
    if (place_ == Place::thinks || place_ == Place::name) {
      tell(parts, AnswerPart::Kind::reasoning, pending_);
    } else if (!in_response_ || !pending_.starts_with(kResponseEnd)) {
      rest_->read(pending_, parts);
    }
    pending_.clear();
    rest_->finish(parts);
  }

 private:
  enum class Place { start, name, thinks, after, says };

  bool advance(Parts& parts) {
    const std::size_t space = leading_space(pending_);
    const std::string_view begin = std::string_view(pending_).substr(space);
    switch (place_) {
      case Place::start:
        if (begin.empty() ||
            (begin.size() < marks_.begin.size() && marks_.begin.starts_with(begin))) {
          return false;
        }
        place_ = begin.starts_with(marks_.begin) ? Place::name : Place::says;
        if (place_ == Place::name) pending_.erase(0, space + marks_.begin.size());
        return true;
      case Place::name:
        if (pending_.size() < marks_.name.size() && marks_.name.starts_with(pending_)) return false;
        if (pending_.starts_with(marks_.name)) pending_.erase(0, marks_.name.size());
        place_ = Place::thinks;
        return true;
      case Place::thinks:
        return think(parts);
      case Place::after: {
        const bool may_be_tag = tags_response_ && !in_response_ && may_begin(begin, kResponseBegin);
        if (begin.empty() || (may_be_tag && begin.size() < kResponseBegin.size())) return false;
        pending_.erase(0, space + (may_be_tag ? kResponseBegin.size() : 0));
        in_response_ = in_response_ || may_be_tag;
        place_ = may_be_tag ? Place::after : Place::says;
        return true;
      }
      case Place::says:
        return say(parts);
    }
    return false;
  }

  /// White space at either end of a thought is none of it.
  bool think(Parts& parts) {
    if (!has_thought_) pending_.erase(0, leading_space(pending_));
    const MarkSearch found = find_mark(pending_, ends_);
    std::size_t end = found.begin;
    while (end > 0 && is_space(pending_[end - 1])) --end;
    has_thought_ = has_thought_ || end > 0;
    tell(parts, AnswerPart::Kind::reasoning, std::string_view(pending_).substr(0, end));
    const std::size_t next = found.begin + (found.mark == 0 ? marks_.end.size() : 0);
    pending_.erase(0, found.mark < 0 ? end : next);
    if (found.mark < 0) return false;
    place_ = Place::after;
    return true;
  }

  /// The end of a response is not said if nothing but white space follows, and so waits.
  bool say(Parts& parts) {
    std::size_t size = pending_.size();
    if (in_response_) {
      const MarkSearch found = find_mark(pending_, {&kResponseEnd, 1});
      const std::size_t next = found.begin + kResponseEnd.size();
      const bool goes_on =
          found.mark == 0 && !trimmed(std::string_view(pending_).substr(next)).empty();
      size = goes_on ? next : found.begin;
    }
    rest_->read(std::string_view(pending_).substr(0, size), parts);
    pending_.erase(0, size);
    return size > 0 && !pending_.empty();
  }

  std::unique_ptr<AnswerReader> rest_;
  Marks marks_;
  std::vector<std::string_view> ends_;  // of a thought: its own first
  bool tags_response_;
  Place place_;
  std::string pending_;
  bool has_thought_ = false;
  bool in_response_ = false;  // what is said began with its tag
};

}  // namespace

bool AnswerStyle::shows_special() const { return dialect != ToolDialect::none || reasons; }

bool is_always_marked(ToolDialect dialect) {
  return dialect == ToolDialect::harmony || dialect == ToolDialect::cohere;
}

bool knows_tools(std::string_view template_source) {
  return has(template_source, "tools") && dialect_of(template_source) != ToolDialect::none;
}

ToolDialect dialect_of(std::string_view source) {
  if (has(source, "<|channel|>") && has(source, "functions.")) return ToolDialect::harmony;
  if (has(source, "<start_function_call>")) return ToolDialect::functiongemma;
  if (has(source, "<|START_ACTION|>")) return ToolDialect::cohere;
  if (has(source, "<|tool_call>")) return ToolDialect::gemma4;
  if (has(source, "<|tool_call_argument_begin|>")) return ToolDialect::kimi;
  if (has(source, "<TOOLCALL>")) return ToolDialect::nemotron;
  if (has(source, "<seed:tool_call>")) return ToolDialect::seed;
  if (has(source, "<｜tool▁sep｜>")) return ToolDialect::deepseek;
  if (has(source, "[TOOL_CALLS]")) return ToolDialect::mistral;
  if (has(source, "<tool_call>")) return ToolDialect::hermes;
  if (has(source, "<function_calls>")) return ToolDialect::olmo;
  if (has(source, "<|tool_call|>")) return ToolDialect::granite;
  const bool is_llama = has(source, "<|python_tag|>") || has(source, "<|eom_id|>") ||
                        (has(source, "ipython") && has(source, "parameters"));
  return is_llama ? ToolDialect::llama3 : ToolDialect::none;
}

std::vector<std::string_view> call_marks_of(ToolDialect dialect) {
  switch (dialect) {
    case ToolDialect::none:
    case ToolDialect::harmony:  // its thoughts are messages of their own
      return {};
    case ToolDialect::hermes:
      return {"<tool_call>"};
    case ToolDialect::llama3:
      return {"<|python_tag|>", "<|python_start|>"};
    case ToolDialect::mistral:
      return {"[TOOL_CALLS]"};
    case ToolDialect::functiongemma:
      return {"<start_function_call>"};
    case ToolDialect::gemma4:
      return {"<|tool_call>"};
    case ToolDialect::cohere:
      return {"<|START_ACTION|>"};
    case ToolDialect::deepseek:
      return {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"};
    case ToolDialect::granite:
      return {"<|tool_call|>"};
    case ToolDialect::seed:
      return {"<seed:tool_call>"};
    case ToolDialect::kimi:
      return {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"};
    case ToolDialect::nemotron:
      return {"<TOOLCALL>"};
    case ToolDialect::olmo:
      return {"<function_calls>"};
  }
  return {};
}

std::vector<std::string_view> text_marks_of(const AnswerStyle& style) {
  std::vector<std::string_view> marks;
  const auto add = [&](std::string_view begin, std::string_view end) {
    marks.push_back(begin);
    marks.push_back(end);
  };
  const Marks& thought = marks_of(style.thoughts);
  if (style.reasons) add(thought.begin, thought.end);
  if (style.tags_response) add(kResponseBegin, kResponseEnd);
  if (style.dialect == ToolDialect::cohere) add("<|START_RESPONSE|>", "<|END_RESPONSE|>");
  return marks;
}

bool marks_reasoning(std::string_view template_source) {
  return has(template_source, kTags.end) || has(template_source, kTags.begin) ||
         thought_marks_of(template_source) != ThoughtMarks::tags;
}

ThoughtMarks thought_marks_of(std::string_view template_source) {
  for (const auto kind :
       {ThoughtMarks::channel, ThoughtMarks::cohere, ThoughtMarks::seed, ThoughtMarks::mistral}) {
    const Marks& marks = marks_of(kind);
    if (has(template_source, marks.begin) && has(template_source, marks.end)) return kind;
  }
  return ThoughtMarks::tags;
}

bool tags_responses(std::string_view template_source) {
  return has(template_source, kResponseBegin) && has(template_source, kResponseEnd);
}

std::unique_ptr<AnswerReader> make_reader(const AnswerStyle& style) {
  std::unique_ptr<AnswerReader> reader;
  switch (style.dialect) {
    case ToolDialect::none:
      reader = std::make_unique<PlainReader>();
      break;
    case ToolDialect::hermes:
      reader = make_hermes_reader(style.schemas);
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
    case ToolDialect::gemma4:
      reader = make_gemma4_reader();
      break;
    case ToolDialect::deepseek:
      reader = make_deepseek_reader();
      break;
    case ToolDialect::cohere:
      reader = make_cohere_reader();
      break;
    case ToolDialect::granite:
      reader = make_granite_reader();
      break;
    case ToolDialect::seed:
      reader = make_seed_reader(style.schemas);
      break;
    case ToolDialect::kimi:
      reader = make_kimi_reader();
      break;
    case ToolDialect::nemotron:
      reader = make_nemotron_reader();
      break;
    case ToolDialect::olmo:
      reader = make_olmo_reader();
      break;
  }
  if (!style.parallel) reader = std::make_unique<OneCallReader>(std::move(reader));
  if (!style.reasons) return reader;
  return std::make_unique<ReasoningReader>(std::move(reader), style);
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
