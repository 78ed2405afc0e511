#include <array>

#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"

namespace talon {
namespace {

constexpr std::string_view kMessage = "<|message|>", kFunctions = "to=functions.";
constexpr std::array<std::string_view, 6> kMarks = {"<|start|>", "<|channel|>", kMessage,
                                                    "<|end|>",   "<|call|>",    "<|return|>"};
constexpr int kBegins = 2;  // marks before this one begin the head of a message
constexpr int kBody = 2;

/// Messages of a head and a body: the head names the channel and who is meant.
class HarmonyReader final : public AnswerReader {
 public:
  explicit HarmonyReader(bool continues) : in_head_(!continues) {}

  void read(std::string_view text, Parts& parts) override {
    pending_ += text;
    while (true) {
      const MarkSearch found = find_mark(pending_, kMarks);
      take(std::string_view(pending_).substr(0, found.begin), parts);
      pending_.erase(0, found.begin);
      if (found.mark < 0) return;
      pending_.erase(0, kMarks[static_cast<std::size_t>(found.mark)].size());
      pass(found.mark, parts);
    }
  }

  void finish(Parts& parts) override {
    take(pending_, parts);
    pending_.clear();
    if (!has_marks_ && in_head_) tell(parts, AnswerPart::Kind::content, head_);
  }

 private:
  void pass(int mark, Parts& parts) {
    has_marks_ = true;
    if (mark == kBody) return begin_body(parts);
    if (mark < kBegins && !in_head_) head_.clear();
    if (mark < kBegins) head_ += ' ';
    in_head_ = mark < kBegins;
    if (mark > kBody) kind_ = AnswerPart::Kind::content;
  }

  void begin_body(Parts& parts) {
    in_head_ = false;
    const std::size_t to = head_.find(kFunctions);
    if (to != std::string::npos) {
      const std::string_view rest = std::string_view(head_).substr(to + kFunctions.size());
      tell(parts, AnswerPart::Kind::call, rest.substr(0, rest.find_first_of(" <\n")));
      kind_ = AnswerPart::Kind::arguments;
    } else {
      const bool thinks = head_.find("analysis") != std::string::npos;
      kind_ = thinks ? AnswerPart::Kind::reasoning : AnswerPart::Kind::content;
    }
  }

  void take(std::string_view text, Parts& parts) {
    if (in_head_) {
      head_ += text;
    } else {
      tell(parts, kind_, text);
    }
  }

  std::string pending_;
  std::string head_;
  bool in_head_;
  bool has_marks_ = false;
  AnswerPart::Kind kind_ = AnswerPart::Kind::content;
};

}  // namespace

std::unique_ptr<AnswerReader> make_harmony_reader(bool continues) {
  return std::make_unique<HarmonyReader>(continues);
}

}  // namespace talon
