#include <array>

#include "serve/tools/json_call.h"
#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"

namespace talon {
namespace {

constexpr std::string_view kPythonStart = "<|python_start|>", kPythonEnd = "<|python_end|>";
constexpr std::array<std::string_view, 2> kLlamaTags = {"<|python_tag|>", kPythonStart};

bool may_begin_with_tag(std::string_view text) {
  return std::ranges::any_of(kLlamaTags,
                             [&](std::string_view tag) { return may_begin(text, tag); });
}

/// Calls are the whole answer, one after the other with `;` between. Llama 4 has them between its
/// marks or, as its template writes them, behind these and what is said there.
class Llama3Reader final : public AnswerReader {
 public:
  explicit Llama3Reader(std::vector<std::string> tools) : tools_(std::move(tools)) {}

  void read(std::string_view text, Parts& parts) override {
    pending_ += text;
    while (advance(parts)) {
    }
  }

  void finish(Parts& parts) override {
    if (place_ == Place::call && !call_.is_told()) content_.say(before_ + call_.raw(), parts);
    if (place_ == Place::start) content_.say(before_ + pending_, parts);
    if (place_ != Place::start && place_ != Place::call) content_.say(pending_, parts);
    content_.finish(parts);
    pending_.clear();
  }

 private:
  enum class Place { start, said, call, after, content };

  bool advance(Parts& parts) {
    if (pending_.empty()) return false;
    const std::size_t space = leading_space(pending_);
    const std::string_view rest = std::string_view(pending_).substr(space);
    switch (place_) {
      case Place::start: {
        const auto tag = std::ranges::find_if(
            kLlamaTags, [&](std::string_view mark) { return rest.starts_with(mark); });
        const bool has_tag = tag != kLlamaTags.end();
        if (!has_tag && may_begin_with_tag(rest)) return false;
        const std::size_t size = space + (has_tag ? tag->size() : 0);
        before_ += pending_.substr(0, size);
        pending_.erase(0, size);
        is_tagged_ = is_tagged_ || has_tag;
        if (has_tag) return true;
        call_ = JsonCall(is_tagged_ ? nullptr : &tools_);
        place_ = pending_.starts_with('{')         ? Place::call
                 : before_.ends_with(kPythonStart) ? Place::said
                                                   : Place::content;
        if (place_ == Place::content) content_.say(before_, parts);
        if (place_ != Place::call) before_.clear();
        return true;
      }
      case Place::said: {
        const MarkSearch found = find_mark(pending_, {&kPythonEnd, 1});
        content_.say(std::string_view(pending_).substr(0, found.begin), parts);
        pending_.erase(0, found.begin + (found.mark < 0 ? 0 : kPythonEnd.size()));
        if (found.mark < 0) return false;
        place_ = Place::start;
        return true;
      }
      case Place::call: {
        pending_.erase(0, call_.take(pending_, parts));
        if (call_.is_told()) content_.call();
        if (call_.state() == JsonCall::State::reading) return false;
        if (!call_.is_told()) content_.say(before_ + call_.raw(), parts);
        place_ = call_.is_told() ? Place::after : Place::content;
        before_.clear();
        return true;
      }
      case Place::after:
        if (rest.size() < kPythonEnd.size() && kPythonEnd.starts_with(rest)) return false;
        if (rest.starts_with(kPythonEnd)) {
          pending_.erase(0, space + kPythonEnd.size());
          return true;
        }
        if (rest.starts_with(';')) {
          pending_.erase(0, space + 1);
          return true;
        }
        place_ = rest.starts_with('{') || may_begin_with_tag(rest) ? Place::start : Place::content;
        return true;
      case Place::content:
        content_.say(pending_, parts);
        pending_.clear();
        return false;
    }
    return false;
  }

  std::vector<std::string> tools_;
  Place place_ = Place::start;
  std::string pending_;
  std::string before_;      // the call
  bool is_tagged_ = false;  // what follows is calls, whatever their names
  JsonCall call_;
  Content content_;
};

}  // namespace

std::unique_ptr<AnswerReader> make_llama3_reader(std::vector<std::string> tools) {
  return std::make_unique<Llama3Reader>(std::move(tools));
}

}  // namespace talon
