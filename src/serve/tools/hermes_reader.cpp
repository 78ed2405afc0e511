#include "serve/tools/json_call.h"
#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"
#include "serve/tools/spelled_call.h"

namespace talon {
namespace {

constexpr std::string_view kHermesBegin = "<tool_call>", kHermesEnd = "</tool_call>";

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

/// Whether a text can become a call that is no JSON object.
bool may_be_spelled(std::string_view text) {
  if (text.starts_with('<')) return may_begin(text, "<function=");
  const auto end = std::ranges::find_if_not(text, is_of_name) - text.begin();
  if (end == 0) return false;
  std::string_view rest = text.substr(static_cast<std::size_t>(end));
  rest.remove_prefix(leading_space(rest));
  return may_begin(rest, "<arg_key>") || may_begin(rest, kHermesEnd);
}

class HermesReader final : public AnswerReader {
 public:
  explicit HermesReader(ToolSchemas schemas) : schemas_(std::move(schemas)) {}

  void read(std::string_view text, Parts& parts) override {
    pending_ += text;
    while (advance(parts)) {
    }
  }

  void finish(Parts& parts) override {
    if (place_ == Place::call && !call_.is_told()) {
      content_.say(std::string(kHermesBegin) + call_.raw(), parts);
    }
    if (place_ == Place::begin) {
      const bool has_tags = pending_.find('<') != std::string::npos;
      has_tags ? tell_spelled(pending_, "", parts)
               : content_.say(std::string(kHermesBegin) + pending_, parts);
    }
    if (place_ == Place::outside) content_.say(pending_, parts);
    content_.finish(parts);
    pending_.clear();
  }

 private:
  enum class Place { outside, begin, call, after };

  /// False when it waits for more.
  bool advance(Parts& parts) {
    switch (place_) {
      case Place::outside: {
        const MarkSearch found = find_mark(pending_, {&kHermesBegin, 1});
        content_.say(std::string_view(pending_).substr(0, found.begin), parts);
        pending_.erase(0, found.begin);
        if (found.mark < 0) return false;
        pending_.erase(0, kHermesBegin.size());
        place_ = Place::begin;
        return true;
      }
      case Place::begin:
        return begin_call(parts);
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

  bool begin_call(Parts& parts) {
    const std::string_view rest = std::string_view(pending_).substr(leading_space(pending_));
    if (rest.empty()) return false;
    if (!may_be_spelled(rest)) {
      call_ = JsonCall();
      place_ = Place::call;
      return true;
    }
    const std::size_t end = pending_.find(kHermesEnd);
    if (end == std::string::npos) return false;
    tell_spelled(std::string_view(pending_).substr(0, end), kHermesEnd, parts);
    pending_.erase(0, end + kHermesEnd.size());
    place_ = Place::outside;
    return true;
  }

  void tell_spelled(std::string_view text, std::string_view end, Parts& parts) {
    const auto call = read_spelled_call(text, schemas_);
    if (!call) return content_.say(std::string(kHermesBegin).append(text).append(end), parts);
    content_.call();
    tell(parts, AnswerPart::Kind::call, call->name);
    tell(parts, AnswerPart::Kind::arguments, call->arguments);
  }

  ToolSchemas schemas_;
  Place place_ = Place::outside;
  std::string pending_;
  JsonCall call_;
  Content content_;
};

}  // namespace

std::unique_ptr<AnswerReader> make_hermes_reader(ToolSchemas schemas) {
  return std::make_unique<HermesReader>(std::move(schemas));
}

}  // namespace talon
