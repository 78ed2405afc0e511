#pragma once

#include <string>
#include <vector>

#include "engine/progress.h"
#include "engine/round_report.h"
#include "talon.h"

namespace talon {

talon_statistics statistics_of(const SequenceStatistics& statistics);

/// One round's news as the C interface shows them. Borrows what the progress does.
class NewsOf {
 public:
  NewsOf(const Progress& progress, const SequenceStatistics& statistics);
  NewsOf(const NewsOf&) = delete;
  NewsOf& operator=(const NewsOf&) = delete;

  const talon_news& news() const { return news_; }

 private:
  void copy_logprobs(const Progress& progress);

  std::string text_, error_;  // with a zero byte
  std::vector<double> token_logprobs_;
  std::vector<talon_logprob> top_;
  talon_statistics statistics_;
  talon_news news_ = {};
};

void show_round(const RoundReport& report, talon_round_fn call, void* user);

}  // namespace talon
