#include "bench/image/code_counts.h"

#include <algorithm>
#include <map>

namespace talon {

TokenId commonest_code(const ImagePlan& plan, std::span<const std::span<const TokenId>> answers) {
  std::map<TokenId, int> counts;
  for (const std::span<const TokenId> answer : answers) {
    for (std::size_t i = 0; i < answer.size(); ++i) {
      if (plan.forced(static_cast<int>(i)) < 0) ++counts[answer[i]];
    }
  }
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  return most == counts.end() ? -1 : most->first;
}

CodeCounts counts_of(const ImagePlan& plan, std::span<const TokenId> answer,
                     std::span<const int> accepted, TokenId background) {
  CodeCounts counts;
  const auto is_code = [&](std::size_t i) { return plan.forced(static_cast<int>(i)) < 0; };
  for (std::size_t i = 0; i < answer.size(); ++i) counts.codes += is_code(i) ? 1 : 0;
  std::size_t next = 1;
  for (const int count : accepted) {
    const std::size_t end = next + static_cast<std::size_t>(count) + 1;
    int codes = 0;
    bool is_foreground = false;
    for (; next < std::min(end, answer.size()); ++next) {
      if (!is_code(next)) continue;
      if (codes++ == 0) is_foreground = answer[next] != background;
    }
    next = end;
    if (!is_foreground) continue;
    ++counts.foreground_rounds;
    counts.foreground_codes += codes;
  }
  return counts;
}

}  // namespace talon
