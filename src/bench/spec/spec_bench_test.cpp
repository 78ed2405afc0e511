#include <gtest/gtest.h>

#include <algorithm>

#include "bench/spec/spec.h"
#include "core/error.h"
#include "io/checkpoint.h"

namespace talon::spec_bench_test {
namespace {

using Log = std::vector<std::pair<std::string, Request>>;

/// Answers two tokens at once, and notes who was asked what.
class Fake : public Contestant {
 public:
  Fake(std::string name, Log& log) : name_(std::move(name)), log_(log) {}
  const std::string& name() const override { return name_; }
  bool claims_same_tokens() const override { return claims; }
  TurnAnswer answer(const Request& request, const StopFlag*) override {
    log_.emplace_back(name_, request);
    if (on_answer) on_answer();
    TurnAnswer answer;
    answer.tokens = tokens;
    answer.text = "word";
    answer.prefill_ms = 5;
    answer.decode_ms = decode_ms;
    return answer;
  }

  std::vector<TokenId> tokens = {7, 8, 9};
  double decode_ms = 10;
  bool claims = true;
  std::function<void()> on_answer;

 private:
  std::string name_;
  Log& log_;
};

class SpecProtocol : public testing::Test {
 protected:
  SpecProtocol()
      : tokenizer_(Tokenizer::for_checkpoint(
            open_checkpoint(std::string(TALON_TEST_DATA) + "/models/stories260K.bin"))),
        prompts_{tokenizer_, nullptr, {}, 512} {
    for (const char* name : {"none", "a", "b"}) {
      auto fake = std::make_unique<Fake>(name, log_);
      fakes_.push_back(fake.get());
      contestants_.push_back(std::move(fake));
    }
    events_.answered = [this](const std::vector<SpecCell>& cells) {
      cells_.insert(cells_.end(), cells.begin(), cells.end());
    };
    events_.skipped = [this](const Question&, const std::string&) { ++skipped_; };
  }
  static Question question(int id, int turns = 1) {
    return {id, "qa", std::vector<std::string>(static_cast<std::size_t>(turns), "Once")};
  }
  bool run(const std::vector<Question>& questions) {
    return SpecBench(prompts_, contestants_, settings_, &stop_).run(questions, events_);
  }
  std::vector<std::string> order() const {
    std::vector<std::string> names;
    for (const auto& [name, request] : log_) names.push_back(name);
    return names;
  }

  Tokenizer tokenizer_;
  SpecPrompts prompts_;
  SpecSettings settings_;
  StopFlag stop_;
  Log log_;
  std::vector<Fake*> fakes_;
  Contestants contestants_;
  SpecBench::Events events_;
  std::vector<SpecCell> cells_;
  int skipped_ = 0;
};

TEST_F(SpecProtocol, EveryMethodGoesFirstInTurn) {
  EXPECT_TRUE(run({question(1), question(2), question(3)}));
  EXPECT_EQ(order(),
            (std::vector<std::string>{"none", "a", "b", "a", "b", "none", "b", "none", "a"}));
  ASSERT_EQ(cells_.size(), 9u);
  EXPECT_EQ(cells_[3].method, "none");
}

TEST_F(SpecProtocol, RepeatsAreInterleavedToo) {
  settings_.repeats = 2;
  run({question(1)});
  EXPECT_EQ(order(), (std::vector<std::string>{"none", "a", "b", "a", "b", "none"}));
  EXPECT_EQ(cells_[0].tok_s.size(), 2u);
  EXPECT_DOUBLE_EQ(cells_[0].tok_s[1], 2 / 10.0 * 1000);
  EXPECT_DOUBLE_EQ(cells_[0].wall_tok_s[1], 3 / 15.0 * 1000);
  EXPECT_EQ(cells_[0].new_tokens, 3);
  EXPECT_DOUBLE_EQ(cells_[0].decode_ms, 10);
}

TEST_F(SpecProtocol, LaterTurnsSeeTheConversationSoFar) {
  run({question(1, 2)});
  const auto of_none = [&](std::size_t turn) {
    std::size_t seen = 0;
    for (const auto& [name, request] : log_) {
      if (name == "none" && seen++ == turn) return request.prompt;
    }
    return std::vector<TokenId>{};
  };
  EXPECT_EQ(of_none(1),
            tokenizer_.encode("Once\nword\nOnce\n", {.parse_special = false,
                                                     .add_start = tokenizer_.wants_start_token()}));
  EXPECT_EQ(cells_[0].new_tokens, 6);
  EXPECT_EQ(cells_[0].prompt_tokens,
            static_cast<int>(log_[0].second.prompt.size() + of_none(1).size()));
}

TEST_F(SpecProtocol, EveryTemperatureMeetsEverySeedExceptZero) {
  settings_.temperatures = {0, 0.8};
  settings_.seeds = {3, 4};
  run({question(1)});
  std::vector<std::pair<double, std::uint64_t>> conditions;
  for (const SpecCell& cell : cells_) {
    if (cell.method == "none") conditions.emplace_back(cell.temperature, cell.seed);
  }
  EXPECT_EQ(conditions,
            (std::vector<std::pair<double, std::uint64_t>>{{0, 3}, {0.8, 3}, {0.8, 4}}));
  EXPECT_EQ(log_.back().second.sampler.temperature, 0.8);
  EXPECT_EQ(log_.back().second.seed, 4u);
}

TEST_F(SpecProtocol, OneOtherTokenIsSeen) {
  fakes_[2]->tokens = {7, 8, 1};
  run({question(1)});
  EXPECT_TRUE(cells_[1].equal && cells_[1].counts());
  EXPECT_FALSE(cells_[2].equal || cells_[2].counts());
}

TEST_F(SpecProtocol, AMethodThatFailsLeavesAnEmptyCellAndTheRestGoesOn) {
  fakes_[1]->on_answer = [] { fail("the server has gone"); };
  EXPECT_TRUE(run({question(1), question(2)}));
  ASSERT_EQ(cells_.size(), 6u);
  EXPECT_EQ(cells_[1].error, "the server has gone");
  EXPECT_FALSE(cells_[1].counts());
  EXPECT_TRUE(cells_[2].counts() && cells_[5].counts());
}

TEST_F(SpecProtocol, StoppingDropsTheQuestionAtHand) {
  int answers = 0;
  for (Fake* fake : fakes_) {
    fake->on_answer = [&] {
      if (++answers == 5) stop_.request();
    };
  }
  EXPECT_FALSE(run({question(1), question(2), question(3)}));
  EXPECT_EQ(answers, 5);
  EXPECT_EQ(cells_.size(), 3u);
}

TEST_F(SpecProtocol, WhatIsDoneIsNotAskedAgain) {
  events_.is_done = [](const std::string& condition) { return condition.starts_with("1\n"); };
  std::size_t most = 0;
  events_.progress = [&](std::size_t, std::size_t total) { most = total; };
  run({question(1), question(2)});
  EXPECT_EQ(cells_.size(), 3u);
  EXPECT_EQ(most, 3u);
}

TEST_F(SpecProtocol, QuestionsThatDoNotFitAreSkipped) {
  settings_.max_new = 600;
  EXPECT_TRUE(run({question(1)}));
  EXPECT_EQ(skipped_, 1);
  EXPECT_TRUE(cells_.empty());
}

TEST_F(SpecProtocol, WarmingUpCountsForNothing) {
  settings_.warm_up = 2;
  SpecBench(prompts_, contestants_, settings_, &stop_).warm_up(question(1));
  EXPECT_EQ(log_.size(), 6u);
  EXPECT_TRUE(cells_.empty());
}

}  // namespace
}  // namespace talon::spec_bench_test
