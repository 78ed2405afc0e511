#include "serve/tools/whole_call_reader.h"

#include <utility>

namespace talon {

WholeCallReader::WholeCallReader(std::string_view begin, std::string_view end, ReadCalls read_calls,
                                 std::vector<std::string_view> around)
    : outside_(std::move(around)), inside_{end}, read_calls_(std::move(read_calls)) {
  outside_.insert(outside_.begin(), begin);
}

void WholeCallReader::read(std::string_view text, Parts& parts) {
  pending_ += text;
  while (advance(parts)) {
  }
}

void WholeCallReader::finish(Parts& parts) {
  if (in_call_) {  // the end mark ends the answer, or the answer was cut
    end_call(pending_, "", parts);
  } else {
    content_.say(pending_, parts);
  }
  content_.finish(parts);
  pending_.clear();
}

/// Up to behind the next mark; whether there is one.
bool WholeCallReader::advance(Parts& parts) {
  const auto& marks = in_call_ ? inside_ : outside_;
  const MarkSearch found = find_mark(pending_, marks);
  const std::string_view before = std::string_view(pending_).substr(0, found.begin);
  if (!in_call_) content_.say(before, parts);
  if (found.mark < 0) {
    if (!in_call_) pending_.erase(0, found.begin);
    return false;
  }
  if (in_call_) end_call(before, inside_[0], parts);
  pending_.erase(0, found.begin + marks[static_cast<std::size_t>(found.mark)].size());
  in_call_ = !in_call_ && found.mark == 0;
  return true;
}

void WholeCallReader::end_call(std::string_view text, std::string_view end, Parts& parts) {
  const Calls calls = read_calls_(text);
  if (calls.empty()) return content_.say(std::string(outside_[0]).append(text).append(end), parts);
  content_.call();
  for (const ReadAnswer::Call& call : calls) {
    tell(parts, AnswerPart::Kind::call, call.name);
    tell(parts, AnswerPart::Kind::arguments, call.arguments);
  }
}

}  // namespace talon
