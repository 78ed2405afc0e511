#include <array>

#include "core/error.h"
#include "io/json_text.h"
#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"

namespace talon {
namespace {

constexpr std::string_view kNameEnd = "<｜tool▁sep｜>", kFence = "```";
/// The first begins a call, the second ends it; the others enclose all calls.
constexpr std::array<std::string_view, 4> kCallMarks = {
    "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>"};

std::string_view without_space(std::string_view text) {
  text.remove_prefix(leading_space(text));
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_object(std::string_view text) {
  try {
    return parse_json(text, "arguments").is_object();
  } catch (const Error&) {
    return false;
  }
}

/// `NAME<sep>{...}`, or as V3 and R1 write it `function<sep>NAME` and the object between fences.
std::optional<ReadAnswer::Call> read_call(std::string_view text) {
  const std::size_t end = text.find(kNameEnd);
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view name = without_space(text.substr(0, end));
  std::string_view arguments = without_space(text.substr(end + kNameEnd.size()));
  if (const std::size_t fence = arguments.find(kFence);
      fence != std::string_view::npos && !arguments.starts_with('{')) {
    name = without_space(arguments.substr(0, fence));
    arguments = arguments.substr(fence + kFence.size());
    arguments = arguments.substr(std::min(arguments.find('{'), arguments.size()));
    arguments = without_space(arguments.substr(0, arguments.rfind(kFence)));
  }
  if (name.empty() || !is_object(arguments)) return std::nullopt;
  return ReadAnswer::Call{std::string(name), std::string(arguments)};
}

class DeepSeekReader final : public AnswerReader {
 public:
  void read(std::string_view text, Parts& parts) override {
    pending_ += text;
    while (advance(parts)) {
    }
  }

  void finish(Parts& parts) override {
    if (in_call_) {  // the answer was cut, or ends with the mark
      end_call(pending_, "", parts);
    } else {
      content_.say(pending_, parts);
    }
    content_.finish(parts);
    pending_.clear();
  }

 private:
  bool advance(Parts& parts) {
    const MarkSearch found =
        in_call_ ? find_mark(pending_, {&kCallMarks[1], 1}) : find_mark(pending_, kCallMarks);
    const std::string_view before = std::string_view(pending_).substr(0, found.begin);
    if (!in_call_) content_.say(before, parts);
    if (in_call_ && found.mark >= 0) end_call(before, kCallMarks[1], parts);
    if (found.mark < 0) {
      if (!in_call_) pending_.erase(0, found.begin);
      return false;
    }
    const std::size_t mark = in_call_ ? 1 : static_cast<std::size_t>(found.mark);
    pending_.erase(0, found.begin + kCallMarks[mark].size());
    in_call_ = mark == 0;
    return true;
  }

  void end_call(std::string_view text, std::string_view end, Parts& parts) {
    const auto call = read_call(text);
    if (!call) {
      return content_.say(std::string(kCallMarks[0]).append(text).append(end), parts);
    }
    content_.call();
    tell(parts, AnswerPart::Kind::call, call->name);
    tell(parts, AnswerPart::Kind::arguments, call->arguments);
  }

  std::string pending_;
  bool in_call_ = false;
  Content content_;
};

}  // namespace

std::unique_ptr<AnswerReader> make_deepseek_reader() { return std::make_unique<DeepSeekReader>(); }

}  // namespace talon
