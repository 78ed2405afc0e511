#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "serve/tools/answer_part.h"

namespace talon {

/// Where the first of some marks is in a text that may go on.
struct MarkSearch {
  std::size_t begin = 0;  // of the mark; if there is none, of what may become one, or the end
  int mark = -1;          // which, -1: none
};

inline MarkSearch find_mark(std::string_view text, std::span<const std::string_view> marks) {
  MarkSearch found{text.size(), -1};
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const std::size_t at = text.find(marks[i]);
    if (at < found.begin) found = {at, static_cast<int>(i)};
  }
  for (const std::string_view mark : marks) {
    const std::size_t most = std::min(text.size(), mark.size() - 1);
    for (std::size_t size = most; size > 0; --size) {
      const std::size_t begin = text.size() - size;
      if (begin < found.begin && mark.starts_with(text.substr(begin))) found = {begin, -1};
    }
  }
  return found;
}

/// Whether `text`, which may go on, can still begin with `mark`.
inline bool may_begin(std::string_view text, std::string_view mark) {
  return mark.starts_with(text) || text.starts_with(mark);
}

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

inline std::size_t leading_space(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, is_space) - text.begin());
}

/// Without white space at either end.
inline std::string_view trimmed(std::string_view text) {
  text.remove_prefix(leading_space(text));
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

inline void tell(AnswerReader::Parts& parts, AnswerPart::Kind kind, std::string_view text) {
  if (text.empty() && kind != AnswerPart::Kind::call) return;
  const bool goes_on =
      !parts.empty() && parts.back().kind == kind && kind != AnswerPart::Kind::call;
  if (goes_on) {
    parts.back().text += text;
  } else {
    parts.push_back({kind, std::string(text)});
  }
}

/// What a model says between its calls: white space beside a call belongs to it.
class Content {
 public:
  void say(std::string_view text, AnswerReader::Parts& parts) {
    if (at_call_) text.remove_prefix(leading_space(text));
    if (text.empty()) return;
    at_call_ = false;
    space_ += text;
    std::size_t end = space_.size();
    while (end > 0 && is_space(space_[end - 1])) --end;
    tell(parts, AnswerPart::Kind::content, std::string_view(space_).substr(0, end));
    space_.erase(0, end);
  }
  void call() {
    space_.clear();
    at_call_ = true;
  }
  void finish(AnswerReader::Parts& parts) {
    tell(parts, AnswerPart::Kind::content, space_);
    space_.clear();
  }

 private:
  std::string space_;  // that a call may follow
  bool at_call_ = false;
};

}  // namespace talon
