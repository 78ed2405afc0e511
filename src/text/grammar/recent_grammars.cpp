#include "text/grammar/recent_grammars.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace talon {

std::shared_ptr<const ConstraintSource> RecentGrammars::get(const GrammarText& text) {
  if (auto known = find(text)) return known;
  std::list<Remembered> made;
  made.push_back({text, compiler_.compile(text)});
  if (auto known = find(text)) return known;  // of a thread that was faster
  const auto grammar = made.front().grammar;
  std::list<Remembered> forgotten;  // freed when others may go on
  const std::lock_guard lock(mutex_);
  recent_.splice(recent_.begin(), made);
  if (recent_.size() > kMost)
    forgotten.splice(forgotten.begin(), recent_, std::prev(recent_.end()));
  return grammar;
}

std::shared_ptr<const ConstraintSource> RecentGrammars::find(const GrammarText& text) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(recent_, [&](const Remembered& one) { return one.text == text; });
  if (found == recent_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found);
  return found->grammar;
}

}  // namespace talon
