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
constexpr Marks kOpenHunyuan = {"<think:opensource>", "</think:opensource>", ""};
constexpr Marks kApertusThought = {"<|inner_prefix|>", "<|inner_suffix|>", ""};
constexpr Marks kResponse = {"<response>", "</response>", ""};
constexpr Marks kAnswer = {"<answer>", "</answer>", ""};

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
    case ThoughtMarks::hunyuan:
      return kOpenHunyuan;
    case ThoughtMarks::apertus:
      return kApertusThought;
    default:
      return kTags;
  }
}

/// Those of `none` are not looked at.
const Marks& marks_of(SaidTags kind) { return kind == SaidTags::answer ? kAnswer : kResponse; }

bool has(std::string_view source, std::string_view text) {
  return source.find(text) != std::string_view::npos;
}

/// Whether Hy3's tags have their suffix, which its template puts into each as it writes them.
bool is_open_hunyuan(std::string_view source) {
  return has(source, ":opensource") && has(source, "<tool_calls");
}

/// The dialect of a family that writes calls between <tool_calls> and </tool_calls>.
ToolDialect dialect_of_tool_calls(std::string_view source) {
  if (is_open_hunyuan(source)) return ToolDialect::hunyuan_open;
  if (!has(source, "<tool_calls>")) return ToolDialect::none;
  if (!has(source, "<tool_call>")) return ToolDialect::tool_calls;
  const bool is_hunyuan = has(source, "<tool_sep>") || has(source, "```json");
  return is_hunyuan ? ToolDialect::hunyuan : ToolDialect::none;
}

/// LFM2.5's of some sizes have no mark.
bool is_lfm2(std::string_view source) {
  return has(source, "<|tool_list_start|>") || has(source, "<|tool_call_start|>") ||
         (has(source, "List of tools: [") && has(source, "<|im_start|>"));
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
        said_tags_(style.said_tags),
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
    } else if (!in_tags_ || !trimmed(pending_).starts_with(marks_of(said_tags_).end)) {
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
        if (!begin.starts_with(marks_.begin)) {
          place_ = said_tags_ == SaidTags::answer ? Place::after : Place::says;
          return true;
        }
        place_ = Place::name;
        pending_.erase(0, space + marks_.begin.size());
        return true;
      case Place::name:
        if (pending_.size() < marks_.name.size() && marks_.name.starts_with(pending_)) return false;
        if (pending_.starts_with(marks_.name)) pending_.erase(0, marks_.name.size());
        place_ = Place::thinks;
        return true;
      case Place::thinks:
        return think(parts);
      case Place::after: {
        const std::string_view tag = marks_of(said_tags_).begin;
        const bool may_be_tag = said_tags_ != SaidTags::none && !in_tags_ && may_begin(begin, tag);
        if (begin.empty() || (may_be_tag && begin.size() < tag.size())) return false;
        pending_.erase(0, space + (may_be_tag ? tag.size() : 0));
        in_tags_ = in_tags_ || may_be_tag;
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

  /// The end of what stands in tags is not said if nothing but white space follows, nor the white
  /// space before it; so both wait.
  bool say(Parts& parts) {
    std::size_t size = pending_.size();
    if (in_tags_) {
      const std::string_view tag = marks_of(said_tags_).end;
      const MarkSearch found = find_mark(pending_, {&tag, 1});
      const std::size_t next = found.begin + tag.size();
      const bool goes_on =
          found.mark == 0 && !trimmed(std::string_view(pending_).substr(next)).empty();
      size = goes_on ? next : found.begin;
      while (!goes_on && size > 0 && is_space(pending_[size - 1])) --size;
    }
    rest_->read(std::string_view(pending_).substr(0, size), parts);
    pending_.erase(0, size);
    return size > 0 && !pending_.empty();
  }

  std::unique_ptr<AnswerReader> rest_;
  Marks marks_;
  std::vector<std::string_view> ends_;  // of a thought: its own first
  SaidTags said_tags_;
  Place place_;
  std::string pending_;
  bool has_thought_ = false;
  bool in_tags_ = false;  // what is said began with its tag
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
  if (has(source, "<minimax:tool_call>")) return ToolDialect::minimax;
  if (has(source, "<|tools_prefix|>")) return ToolDialect::apertus;
  const ToolDialect of_tool_calls = dialect_of_tool_calls(source);
  if (of_tool_calls != ToolDialect::none) return of_tool_calls;
  if (has(source, "<tool_call>")) return ToolDialect::hermes;
  if (has(source, "<function_calls>")) return ToolDialect::olmo;
  if (has(source, "<|tool_call|>")) return ToolDialect::granite;
  if (is_lfm2(source)) return ToolDialect::lfm2;
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
    case ToolDialect::lfm2:
      return {"<|tool_call_start|>"};
    case ToolDialect::minimax:
      return {"<minimax:tool_call>"};
    case ToolDialect::tool_calls:
      return {"<tool_calls>"};
    case ToolDialect::hunyuan:
      return {"<tool_calls>", "<tool_call>"};
    case ToolDialect::hunyuan_open:
      return {"<tool_calls:opensource>", "<tool_call:opensource>"};
    case ToolDialect::apertus:
      return {"<|tools_prefix|>"};
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
  if (style.said_tags != SaidTags::none) {
    add(marks_of(style.said_tags).begin, marks_of(style.said_tags).end);
  }
  if (style.dialect == ToolDialect::cohere) add("<|START_RESPONSE|>", "<|END_RESPONSE|>");
  return marks;
}

bool marks_reasoning(std::string_view template_source) {
  return has(template_source, kTags.end) || has(template_source, kTags.begin) ||
         thought_marks_of(template_source) != ThoughtMarks::tags;
}

ThoughtMarks thought_marks_of(std::string_view template_source) {
  if (is_open_hunyuan(template_source)) return ThoughtMarks::hunyuan;
  for (const auto kind : {ThoughtMarks::channel, ThoughtMarks::cohere, ThoughtMarks::seed,
                          ThoughtMarks::mistral, ThoughtMarks::apertus}) {
    const Marks& marks = marks_of(kind);
    if (has(template_source, marks.begin) && has(template_source, marks.end)) return kind;
  }
  return ThoughtMarks::tags;
}

SaidTags said_tags_of(std::string_view template_source) {
  if (has(template_source, kResponse.begin) && has(template_source, kResponse.end)) {
    return SaidTags::response;
  }
  // Hunyuan A13B's does not speak of them.
  const bool is_hunyuan = has(template_source, "<|extra_0|>") ||
                          (has(template_source, "<｜hy_") && has(template_source, kAnswer.begin));
  return is_hunyuan ? SaidTags::answer : SaidTags::none;
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
    case ToolDialect::lfm2:
      reader = make_lfm2_reader();
      break;
    case ToolDialect::minimax:
      reader = make_minimax_reader(style.schemas);
      break;
    case ToolDialect::tool_calls:
      reader = make_tool_calls_reader();
      break;
    case ToolDialect::hunyuan:
      reader = make_hunyuan_reader(style.schemas);
      break;
    case ToolDialect::hunyuan_open:
      reader = make_open_hunyuan_reader(style.schemas);
      break;
    case ToolDialect::apertus:
      reader = make_apertus_reader();
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
