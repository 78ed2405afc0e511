#include "serve/tools/json_call.h"
#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"

namespace talon {
namespace {

constexpr std::string_view kHermesBegin = "<tool_call>", kHermesEnd = "</tool_call>";

class HermesReader final : public AnswerReader {
 public:
  void read(std::string_view text, Parts& parts) override {
    pending_ += text;
    while (advance(parts)) {
    }
  }

  void finish(Parts& parts) override {
    if (place_ == Place::call && !call_.is_told()) {
      content_.say(std::string(kHermesBegin) + call_.raw(), parts);
    }
    if (place_ == Place::outside) content_.say(pending_, parts);
    content_.finish(parts);
    pending_.clear();
  }

 private:
  enum class Place { outside, call, after };

  /// False when it waits for more.
  bool advance(Parts& parts) {
    switch (place_) {
      case Place::outside: {
        const MarkSearch found = find_mark(pending_, {&kHermesBegin, 1});
        content_.say(std::string_view(pending_).substr(0, found.begin), parts);
        pending_.erase(0, found.begin);
        if (found.mark < 0) return false;
        pending_.erase(0, kHermesBegin.size());
        call_ = JsonCall();
        place_ = Place::call;
        return true;
      }
      case Place::call: {
        const bool was_told = call_.is_told();
        pending_.erase(0, call_.take(pending_, parts));
        if (!was_told && call_.is_told()) content_.call();
        if (call_.state() == JsonCall::State::reading) return false;
        if (!call_.is_told()) {
          content_.say(std::string(kHermesBegin) + call_.raw(), parts);
          place_ = Place::outside;
        } else {
          place_ = Place::after;
        }
        return true;
      }
      case Place::after: {
        const std::size_t space = leading_space(pending_);
        const std::string_view rest = std::string_view(pending_).substr(space);
        if (rest.size() < kHermesEnd.size() && kHermesEnd.starts_with(rest)) return false;
        pending_.erase(0, space + (rest.starts_with(kHermesEnd) ? kHermesEnd.size() : 0));
        place_ = Place::outside;
        return true;
      }
    }
    return false;
  }

  Place place_ = Place::outside;
  std::string pending_;
  JsonCall call_;
  Content content_;
};

}  // namespace

std::unique_ptr<AnswerReader> make_hermes_reader() { return std::make_unique<HermesReader>(); }

}  // namespace talon
