#include "bench/load/load_check.h"

#include <map>

namespace talon {
namespace {

struct Place {
  const LoadSlice* slice;
  const LoadAnswer* answer;
};

/// Answers with text by the number of their prompt: each is decoded plainly once.
std::map<int, std::vector<Place>> by_prompt(std::span<const LoadSlice> slices) {
  std::map<int, std::vector<Place>> places;
  for (const LoadSlice& slice : slices) {
    for (const LoadAnswer& answer : slice.answers) {
      const bool says = answer.error.empty() && !answer.is_long;
      if (says && (answer.is_whole || !answer.text.empty())) {
        places[answer.prompt].push_back({&slice, &answer});
      }
    }
  }
  return places;
}

std::size_t first_difference(const std::string& a, const std::string& b) {
  std::size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

std::vector<std::string> check_texts(
    std::span<const LoadSlice> slices, std::span<const bool> claims, const LoadPrompts& prompts,
    const PlainText& plain, std::vector<LoadResult>& results,
    const std::function<void(std::size_t, std::size_t)>& progress) {
  std::vector<std::string> differences;
  const auto places = by_prompt(slices);
  const std::size_t servers = claims.size();
  std::size_t done = 0;
  for (const auto& [number, answers] : places) {
    const std::optional<std::string> decoded = plain(prompts.at(number));
    if (!decoded) break;
    const std::string& wanted = *decoded;
    for (const auto& [slice, answer] : answers) {
      const auto server = static_cast<std::size_t>(slice->server);
      const bool same =
          answer->is_whole ? answer->text == wanted : wanted.starts_with(answer->text);
      for (std::size_t i = server; i < results.size(); i += servers) {
        if (name_of(results[i].level) != name_of(slice->level)) continue;
        ++results[i].compared;
        results[i].unequal += same ? 0 : 1;
        if (!same && claims[server]) {
          differences.push_back(fmt::format("{}, {}: prompt {} differs at byte {} of {}",
                                            results[i].server, name_of(slice->level), number,
                                            first_difference(answer->text, wanted), wanted.size()));
        }
      }
    }
    progress(++done, places.size());
  }
  return differences;
}

}  // namespace talon
