#include <array>

#include "serve/tools/json_call.h"
#include "serve/tools/mark_search.h"
#include "serve/tools/readers.h"

namespace talon {
namespace {

constexpr std::string_view kArguments = "[ARGS]", kId = "[CALL_ID]";
constexpr std::array<std::string_view, 1> kMistral = {"[TOOL_CALLS]"};
constexpr std::array<std::string_view, 2> kGranite = {"<|tool_call|>", "<|/tool_call|>"};
constexpr std::array<std::string_view, 2> kNemotron = {"<TOOLCALL>", "</TOOLCALL>"};
constexpr std::array<std::string_view, 2> kToolCalls = {"<tool_calls>", "</tool_calls>"};
constexpr std::array<std::string_view, 2> kApertus = {"<|tools_prefix|>", "<|tools_suffix|>"};
constexpr std::array<std::string_view, 4> kCohereMarks = {"<|START_ACTION|>", "<|END_ACTION|>",
                                                          "<|START_RESPONSE|>", "<|END_RESPONSE|>"};

/// After the mark stands a list of objects, or a name with its arguments: the older and the newer
/// models of the family.
class MistralReader final : public AnswerReader {
 public:
  /// marks: of the beginning; the others are passed over. is_keyed: objects have the name of a
  /// function as their key.
  explicit MistralReader(std::span<const std::string_view> marks, bool is_keyed = false)
      : marks_(marks), is_keyed_(is_keyed) {}

  void read(std::string_view text, Parts& parts) override {
    pending_ += text;
    while (advance(parts)) {
    }
  }

  void finish(Parts& parts) override {
    const bool is_told = place_ == Place::object && call_.is_told();
    if (place_ == Place::outside) content_.say(pending_, parts);
    if (place_ == Place::begin || place_ == Place::name) content_.say(before_ + pending_, parts);
    if (place_ == Place::object && !is_told) content_.say(before_ + call_.raw(), parts);
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
        return read_object(parts);
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
    const MarkSearch found = find_mark(pending_, marks_);
    content_.say(std::string_view(pending_).substr(0, found.begin), parts);
    pending_.erase(0, found.begin);
    if (found.mark < 0) return false;
    const std::string_view mark = marks_[static_cast<std::size_t>(found.mark)];
    pending_.erase(0, mark.size());
    if (found.mark > 0) return true;
    before_ = mark;
    place_ = Place::begin;
    return true;
  }

  bool read_object(Parts& parts) {
    const bool was_told = call_.is_told();
    pending_.erase(0, call_.take(pending_, parts));
    if (!was_told && call_.is_told()) begin_told();
    if (call_.state() == JsonCall::State::reading) return false;
    if (!call_.is_told()) content_.say(before_ + call_.raw(), parts);
    place_ = call_.state() == JsonCall::State::done ? Place::between : Place::outside;
    return true;
  }

  void begin_told() {
    content_.call();
    before_.clear();
  }

  bool begin_call(char first, std::size_t space) {
    const bool is_between = place_ == Place::between;
    if (first == '{') {
      pass(space);
      call_ = JsonCall(nullptr, is_keyed_);
      place_ = Place::object;
    } else if ((!is_between && first == '[') || (is_between && first == ',')) {
      pass(space + 1);
    } else if (is_between) {
      pending_.erase(0, first == ']' ? space + 1 : 0);
      place_ = Place::outside;
    } else {
      place_ = Place::name;
    }
    return true;
  }

  /// What belongs to a call, if one comes.
  void pass(std::size_t bytes) {
    before_ += pending_.substr(0, bytes);
    pending_.erase(0, bytes);
  }

  bool read_name(Parts& parts) {
    const std::size_t brace = pending_.find('{');
    if (brace == std::string::npos) return false;
    std::string_view name = std::string_view(pending_).substr(0, brace);
    for (const std::string_view mark : {kId, kArguments}) name = name.substr(0, name.find(mark));
    name.remove_prefix(leading_space(name));
    while (!name.empty() && is_space(name.back())) name.remove_suffix(1);
    if (name.empty() || std::ranges::any_of(name, is_space)) {
      content_.say(before_, parts);
      place_ = Place::outside;
      return true;
    }
    begin_told();
    tell(parts, AnswerPart::Kind::call, name);
    pending_.erase(0, brace);
    arguments_ = {};
    place_ = Place::arguments;
    return true;
  }

  std::span<const std::string_view> marks_;
  bool is_keyed_;
  Place place_ = Place::outside;
  std::string pending_;
  std::string before_;  // the call, from its mark on; empty once one was told
  JsonCall call_;
  JsonValueReader arguments_;
  Content content_;
};

}  // namespace

std::unique_ptr<AnswerReader> make_mistral_reader() {
  return std::make_unique<MistralReader>(kMistral);
}

std::unique_ptr<AnswerReader> make_granite_reader() {
  return std::make_unique<MistralReader>(kGranite);
}

std::unique_ptr<AnswerReader> make_nemotron_reader() {
  return std::make_unique<MistralReader>(kNemotron);
}

std::unique_ptr<AnswerReader> make_tool_calls_reader() {
  return std::make_unique<MistralReader>(kToolCalls);
}

std::unique_ptr<AnswerReader> make_apertus_reader() {
  return std::make_unique<MistralReader>(kApertus, /*is_keyed=*/true);
}

std::unique_ptr<AnswerReader> make_cohere_reader() {
  return std::make_unique<MistralReader>(kCohereMarks);
}

}  // namespace talon
