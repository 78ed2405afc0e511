#include "serve/tools/json_call.h"
#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"

namespace talon {
namespace {

constexpr std::string_view kTag = "<|python_tag|>";

/// Calls are the whole answer, one after the other with `;` between.
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
    if (place_ == Place::start || place_ == Place::content) content_.say(pending_, parts);
    content_.finish(parts);
    pending_.clear();
  }

 private:
  enum class Place { start, call, after, content };

  bool advance(Parts& parts) {
    if (pending_.empty()) return false;
    const std::size_t space = leading_space(pending_);
    const std::string_view rest = std::string_view(pending_).substr(space);
    switch (place_) {
      case Place::start: {
        if (rest.empty() || (rest.size() < kTag.size() && kTag.starts_with(rest))) return false;
        const bool has_tag = rest.starts_with(kTag);
        const bool is_call = has_tag || rest.starts_with('{');
        before_ = is_call ? pending_.substr(0, space + (has_tag ? kTag.size() : 0)) : "";
        pending_.erase(0, before_.size());
        is_tagged_ = is_tagged_ || has_tag;
        call_ = JsonCall(is_tagged_ ? nullptr : &tools_);
        place_ = is_call ? Place::call : Place::content;
        return true;
      }
      case Place::call: {
        pending_.erase(0, call_.take(pending_, parts));
        if (call_.is_told()) content_.call();
        if (call_.state() == JsonCall::State::reading) return false;
        if (!call_.is_told()) content_.say(before_ + call_.raw(), parts);
        place_ = call_.is_told() ? Place::after : Place::content;
        return true;
      }
      case Place::after:
        if (rest.empty()) return false;
        if (rest.starts_with(';')) {
          pending_.erase(0, space + 1);
          return true;
        }
        place_ = rest.starts_with('{') || rest.starts_with(kTag.substr(0, rest.size()))
                     ? Place::start
                     : Place::content;
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
