#include "serve/host/model_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <numeric>

#include "core/error.h"
#include "test_server.h"

namespace talon::test::model_host_test {
namespace {

/// Looks on the engine's thread at whatever is new of an answer.
class Watcher final : public AnswerListener {
 public:
  using Look = std::function<void(const Progress&)>;
  explicit Watcher(Look look = {}) : look_(std::move(look)) {}

  void news(const Progress& progress, const SequenceStatistics&) override {
    if (look_) look_(progress);
    if (progress.finish != FinishReason::none) end_.set_value(progress.finish);
  }
  void refused(const Refusal& refusal) noexcept override {
    ADD_FAILURE() << refusal.message;
    end_.set_value(FinishReason::failed);
  }
  /// Waits for it.
  FinishReason end() { return end_.get_future().get(); }

 private:
  Look look_;
  std::promise<FinishReason> end_;
};

Job job_of(std::vector<TokenId> prompt, int max_new, std::shared_ptr<AnswerListener> listener) {
  Job job;
  job.request.prompt = std::move(prompt);
  job.request.max_new = max_new;
  job.listener = std::move(listener);
  return job;
}

TEST(ModelHost, CountsAnAnswerOnceAlsoWhileItsPromptIsRun) {
  ServedModel model = tiny_served({});
  ModelHost& host = *model.host;
  int most = 0;
  const auto look = [&](const Progress&) {
    const HostStatistics now = host.statistics();
    most = std::max(most, now.running + now.waiting);
  };
  const auto quick = std::make_shared<Watcher>(look), slow = std::make_shared<Watcher>();
  std::vector<Job> jobs;
  jobs.push_back(job_of({1, 300}, 60, quick));
  jobs.push_back(job_of(std::vector<TokenId>(500, 300), 1, slow));  // more than one step's rows
  ASSERT_TRUE(host.submit(std::move(jobs)));
  EXPECT_EQ(quick->end(), FinishReason::length);
  EXPECT_EQ(slow->end(), FinishReason::length);
  EXPECT_EQ(most, 2);
}

TEST(ModelHost, CountsTokensAndDraftsWhileTheyCome) {
  ServedModel model = tiny_served({});
  ModelHost& host = *model.host;
  HostStatistics seen;
  const auto look = [&](const Progress& progress) {
    if (progress.finish == FinishReason::none) seen = host.statistics();
  };
  const auto watcher = std::make_shared<Watcher>(look);
  const std::vector<TokenId> prompt = model.tokenizer().encode("Tom and Tom and Tom and");
  std::vector<Job> jobs = {job_of(prompt, 100, watcher)};
  jobs[0].request.sampler.temperature = 0;
  jobs[0].method.drafter = "ngram";
  jobs[0].method.policy = "fixed";
  ASSERT_TRUE(host.submit(std::move(jobs)));
  EXPECT_EQ(watcher->end(), FinishReason::length);
  EXPECT_EQ(seen.prompt_tokens, static_cast<long>(prompt.size()));
  EXPECT_GT(seen.answer_tokens, 0);
  const SpeculationSums& sums = seen.speculation;
  EXPECT_GT(sums.drafts, 0);
  EXPECT_GE(sums.drafted, sums.accepted);
  EXPECT_EQ(std::accumulate(sums.accepted_at.begin(), sums.accepted_at.end(), 0L), sums.accepted);
}

TEST(ModelHost, ThatCancelledAllEndsWhatComesLaterToo) {
  ServedModel model = tiny_served({});
  ModelHost& host = *model.host;
  const auto first = std::make_shared<Watcher>([&](const Progress&) { host.cancel_all(); });
  const auto later = std::make_shared<Watcher>();
  ASSERT_TRUE(host.submit({job_of({1, 300}, 400, first)}));
  EXPECT_EQ(first->end(), FinishReason::cancelled);
  ASSERT_TRUE(host.submit({job_of({1, 300}, 400, later)}));
  EXPECT_EQ(later->end(), FinishReason::cancelled);
}

/// Hears how a job ends that may not be begun; once, or its promise throws.
class Asker final : public AnswerListener {
 public:
  explicit Asker(bool throws = false) : throws_(throws) {}

  void taken() override {
    if (throws_) throw std::bad_alloc();
  }
  void news(const Progress& progress, const SequenceStatistics&) override {
    if (progress.finish == FinishReason::none) return;
    end_.set_value(fmt::format("{}: {}", name_of(progress.finish), progress.error));
  }
  void refused(const Refusal& refusal) noexcept override {
    end_.set_value("refused: " + refusal.message);
  }
  /// Waits for it.
  std::string end() { return end_.get_future().get(); }

 private:
  bool throws_;
  std::promise<std::string> end_;
};

TEST(ModelHost, WhatIsThrownWhileAJobIsBegunEndsThisJobAlone) {
  ServedModel model = tiny_served({});
  ModelHost& host = *model.host;
  const auto end_of = [&](bool is_deaf, const std::function<void(Request&)>& prepare) {
    const auto asker = std::make_shared<Asker>(is_deaf);
    const auto other = std::make_shared<Watcher>();
    std::vector<Job> jobs = {job_of({1, 300}, 3, asker), job_of({1, 300}, 3, other)};
    jobs[0].prepare = prepare;
    EXPECT_TRUE(host.submit(std::move(jobs)));
    const std::string end = asker->end();
    EXPECT_EQ(other->end(), FinishReason::length);
    EXPECT_TRUE(host.idle());
    return end;
  };
  EXPECT_EQ(end_of(false, {}), "length: ");
  EXPECT_EQ(end_of(false, [](Request&) { throw Error("no such prompt"); }),
            "refused: no such prompt");
  EXPECT_EQ(end_of(false, [](Request&) { throw std::bad_alloc(); }),
            "refused: memory: expected enough for this request, found none");
  EXPECT_EQ(end_of(false, [](Request&) { throw Bug("it is broken"); }), "failed: it is broken");
  EXPECT_EQ(end_of(false, [](Request&) { throw 7; }), "failed: unknown fault");
  EXPECT_EQ(end_of(true, {}), "cancelled: ");
}

TEST(ModelMetrics, AreRaisedToWhatAHostHasCounted) {
  Metrics metrics;
  ModelMetrics& model = metrics.add("tiny");
  HostStatistics statistics;
  statistics.prompt_tokens = 7;
  statistics.reused_tokens = 3;
  statistics.answer_tokens = 5;
  statistics.speculation = {.drafts = 2, .drafted = 9, .accepted = 4, .accepted_at = {2, 1, 1}};
  statistics.faults.dropped = 6;
  statistics.faults.lost_draft_rows = 8;
  for (int i = 0; i < 2; ++i) model.set(statistics);
  model.waited(1.5);
  const std::string text = metrics.text();
  for (const char* line :
       {"prompt_tokens_total{model_name=\"tiny\"} 7",
        "generation_tokens_total{model_name=\"tiny\"} 5",
        "prefix_cache_queries_total{model_name=\"tiny\"} 7",
        "prefix_cache_hits_total{model_name=\"tiny\"} 3",
        "spec_decode_num_drafts_total{model_name=\"tiny\"} 2",
        "spec_decode_num_draft_tokens_total{model_name=\"tiny\"} 9",
        "spec_decode_num_accepted_tokens_total{model_name=\"tiny\"} 4",
        "spec_decode_num_dropped_total{model_name=\"tiny\"} 6",
        "spec_decode_num_lost_rows_total{model_name=\"tiny\"} 8",
        "request_queue_time_seconds_sum{model_name=\"tiny\"} 1.5",
        "spec_decode_num_accepted_tokens_per_pos_total{model_name=\"tiny\",position=\"0\"} 2"}) {
    EXPECT_NE(text.find(fmt::format("\ntalon:{}\n", line)), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace talon::test::model_host_test
