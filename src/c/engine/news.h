#pragma once

#include <string>
#include <vector>

#include "engine/progress.h"
#include "engine/round/round_report.h"
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

/// A round as the C interface shows it. Holds a copy of what the report borrows.
class RoundOf {
 public:
  explicit RoundOf(const RoundReport& report);
  RoundOf(RoundOf&&) = default;
  RoundOf& operator=(RoundOf&&) = default;

  const talon_round& round() const { return round_; }

 private:
  std::vector<TokenId> tokens_, emitted_;
  std::vector<NodeId> parents_, accepted_;
  std::vector<float> log_p_;
  talon_round round_ = {};
};

}  // namespace talon
