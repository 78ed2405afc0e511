#include "serve/tools/json_call.h"
#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"

namespace talon {
namespace {

constexpr std::string_view kCalls = "[TOOL_CALLS]", kArguments = "[ARGS]", kId = "[CALL_ID]";

/// After the mark stands a list of objects, or a name with its arguments: the older and the newer
/// models of the family.
class MistralReader final : public AnswerReader {
 public:
  void read(std::string_view text, Parts& parts) override {
    pending_ += text;
    while (advance(parts)) {
    }
  }

  void finish(Parts& parts) override {
    if (place_ == Place::outside) content_.say(pending_, parts);
    content_.finish(parts);
    pending_.clear();
  }

 private:
  enum class Place { outside, begin, object, between, name, arguments };

  bool advance(Parts& parts) {
    const std::size_t space = leading_space(pending_);
    const std::string_view rest = std::string_view(pending_).substr(space);
    switch (place_) {
      case Place::outside:
        return look_for_call(parts);
      case Place::begin:
      case Place::between:
        return !rest.empty() && begin_call(rest.front(), space);
      case Place::object:
        pending_.erase(0, call_.take(pending_, parts));
        if (call_.state() == JsonCall::State::reading) return false;
        place_ = call_.state() == JsonCall::State::done ? Place::between : Place::outside;
        return true;
      case Place::name:
        return read_name(parts);
      case Place::arguments: {
        const std::size_t taken = arguments_.take(pending_);
        tell(parts, AnswerPart::Kind::arguments, std::string_view(pending_).substr(0, taken));
        pending_.erase(0, taken);
        if (!arguments_.is_done()) return false;
        place_ = Place::outside;
        return true;
      }
    }
    return false;
  }

  bool look_for_call(Parts& parts) {
    const MarkSearch found = find_mark(pending_, {&kCalls, 1});
    content_.say(std::string_view(pending_).substr(0, found.begin), parts);
    pending_.erase(0, found.begin);
    if (found.mark < 0) return false;
    pending_.erase(0, kCalls.size());
    content_.call();
    place_ = Place::begin;
    return true;
  }

  bool begin_call(char first, std::size_t space) {
    const bool is_between = place_ == Place::between;
    if (first == '{') {
      pending_.erase(0, space);
      call_ = {};
      place_ = Place::object;
    } else if ((!is_between && first == '[') || (is_between && first == ',')) {
      pending_.erase(0, space + 1);
    } else if (is_between) {
      pending_.erase(0, first == ']' ? space + 1 : 0);
      place_ = Place::outside;
    } else {
      place_ = Place::name;
    }
    return true;
  }

  bool read_name(Parts& parts) {
    const std::size_t brace = pending_.find('{');
    if (brace == std::string::npos) return false;
    std::string_view name = std::string_view(pending_).substr(0, brace);
    for (const std::string_view mark : {kId, kArguments}) name = name.substr(0, name.find(mark));
    name.remove_prefix(leading_space(name));
    while (!name.empty() && is_space(name.back())) name.remove_suffix(1);
    tell(parts, AnswerPart::Kind::call, name);
    pending_.erase(0, brace);
    arguments_ = {};
    place_ = Place::arguments;
    return true;
  }

  Place place_ = Place::outside;
  std::string pending_;
  JsonCall call_;
  JsonValueReader arguments_;
  Content content_;
};

}  // namespace

std::unique_ptr<AnswerReader> make_mistral_reader() { return std::make_unique<MistralReader>(); }

}  // namespace talon
