#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "io/formats/write_safetensors.h"
#include "train/head/test_training.h"

// Runs that are started again: what they remember of their evaluations.
namespace talon::resume_test {
namespace {

using test::bytes_of;
using test::DataFolder;
using test::quiet;
using test::small_run;
using test::train;
using test::write_stories;

class ResumedRun : public testing::Test {
 protected:
  ResumedRun() {
    write_stories(data_.path(), 12);
    options_ = small_run(data_, out_);
    options_.evaluate_every = 1;
  }

  /// Hooks whose evaluations give these scores, one after the other, the last one again and again.
  HeadTrainHooks scoring(std::vector<double> scores, const char* measured_with) {
    HeadTrainHooks hooks = quiet();
    hooks.log = [this](std::string_view line) { said_ += std::string(line) + "\n"; };
    hooks.measured_with = measured_with;
    hooks.evaluate = [this, scores](const std::filesystem::path&) -> HeadScores {
      return {{"chain4", scores[std::min(measured_++, scores.size() - 1)]}};
    };
    measured_ = 0;
    return hooks;
  }
  /// As these hooks, but stopped when `evaluations` were made.
  HeadTrainHooks stopped_after(std::size_t evaluations, HeadTrainHooks hooks) {
    hooks.stop = &stop_.emplace();
    hooks.log = [this, evaluations, log = hooks.log](std::string_view line) {
      log(line);
      if (measured_ == evaluations) stop_->request();
    };
    return hooks;
  }
  std::string file(const char* name) const { return bytes_of(out_.path() / name); }
  std::string head() const { return file("head/model.safetensors"); }

  DataFolder data_, out_;
  HeadTrainOptions options_;
  std::optional<StopFlag> stop_;
  std::size_t measured_ = 0;
  std::string said_;
};

TEST_F(ResumedRun, ScoresUnderOtherSettingsDoNotKeepTheHead) {
  train(options_, stopped_after(1, scoring({9}, "easy questions")));
  const std::string before = head(), evaluations = file("evaluations.csv");
  ASSERT_FALSE(before.empty());
  const HeadTrainResult result = train(options_, scoring({2}, "hard questions"));
  EXPECT_NE(head(), before);
  EXPECT_EQ(result.scores, (HeadScores{{"chain4", 2}}));
  EXPECT_NE(said_.find("measured otherwise than before"), std::string::npos) << said_;
  EXPECT_EQ(file("evaluations_until_1.csv"), evaluations);
  EXPECT_EQ(file("evaluations.csv").find(",9\n"), std::string::npos);
}

TEST_F(ResumedRun, ScoresUnderTheSameSettingsDo) {
  train(options_, stopped_after(1, scoring({9}, "questions")));
  const std::string before = head();
  const HeadTrainResult result = train(options_, scoring({2}, "questions"));
  EXPECT_EQ(head(), before);
  EXPECT_EQ(result.scores, (HeadScores{{"chain4", 9}}));
  EXPECT_EQ(result.facts["iterations"], 1) << "of the head, not of the run";
}

TEST_F(ResumedRun, AHeadThatIsGoneIsMadeAgain) {
  train(options_, scoring({9}, "questions"));
  std::filesystem::remove_all(out_.path() / "head");
  EXPECT_EQ(train(options_, scoring({2}, "questions")).scores, (HeadScores{{"chain4", 2}}));
  EXPECT_FALSE(head().empty());
}

TEST_F(ResumedRun, ThatIsOverChangesNothing) {
  options_.evaluate_every = 0;
  options_.patience = 1;
  const HeadTrainResult result = train(options_, scoring({3, 2}, "questions"));
  const std::vector<const char*> files = {"checkpoint.safetensors", "evaluations.csv", "curve.csv",
                                          "head/README.md", "head/model.safetensors"};
  std::vector<std::string> before;
  for (const char* name : files) before.push_back(file(name));
  const HeadTrainResult again = train(options_, scoring({2}, "questions"));
  EXPECT_EQ(measured_, 0U);
  EXPECT_EQ(again.scores, result.scores);
  EXPECT_EQ(again.facts, result.facts);
  for (std::size_t i = 0; i < files.size(); ++i) EXPECT_EQ(file(files[i]), before[i]) << files[i];
}

TEST_F(ResumedRun, TheCardIsOfTheBestHeadAndKeepsItsScores) {
  train(options_, stopped_after(2, scoring({3, 2}, "questions")));
  train(options_, scoring({2}, "questions"));
  const std::string card = file("head/README.md");
  EXPECT_NE(card.find("| chain4 | 3.000 |"), std::string::npos) << card;
  EXPECT_NE(card.find("| pairs trained, iterations, epochs | "), std::string::npos);
  EXPECT_NE(card.find(", 1, 0 |"), std::string::npos) << card;
}

/// Whoever stops a run while a head is measured does not wait for it: its score says nothing.
TEST_F(ResumedRun, ScoresOfAStoppedEvaluationAreNotKept) {
  for (const int every : {1, 0}) {
    SCOPED_TRACE(every);
    std::filesystem::remove_all(out_.path());
    options_.evaluate_every = every;
    HeadTrainHooks hooks = scoring({9}, "questions");
    hooks.stop = &stop_.emplace();
    hooks.evaluate = [this](const std::filesystem::path&) -> HeadScores {
      stop_->request();
      return {{"chain4", 100}};
    };
    EXPECT_TRUE(train(options_, hooks).head.empty());
    const HeadTrainResult result = train(options_, scoring({3, 2}, "questions"));
    EXPECT_EQ(result.scores, (HeadScores{{"chain4", 3}}));
    EXPECT_EQ(file("evaluations.csv").find(",100\n"), std::string::npos);
  }
}

TEST_F(ResumedRun, MakesUpForAStoppedEvaluation) {
  HeadTrainHooks hooks = scoring({}, "questions");
  hooks.stop = &stop_.emplace();
  hooks.evaluate = [this](const std::filesystem::path&) -> HeadScores {
    stop_->request();
    return {{"chain4", 100}};
  };
  train(options_, hooks);
  train(options_, scoring({3, 2}, "questions"));
  const std::string evaluations = file("evaluations.csv");
  EXPECT_NE(evaluations.find("\n1,"), std::string::npos) << evaluations;
  EXPECT_NE(evaluations.find("\n2,"), std::string::npos) << evaluations;
}

TEST_F(ResumedRun, EndsWithTheEpochsAskedForLast) {
  options_.evaluate_every = 0;
  const auto iterations = [&](double epochs) {
    options_.epochs = epochs;
    return train(options_).facts["iterations"].get<int>();
  };
  const int once = iterations(1);
  EXPECT_GE(once, 2);
  const int thrice = iterations(3);
  EXPECT_GE(thrice, 3 * once - 2);
  std::filesystem::remove_all(out_.path());
  EXPECT_EQ(iterations(3), thrice);
  EXPECT_EQ(iterations(1), thrice) << "it is over";
}

/// As a server's recent texts, of which the oldest go.
TEST_F(ResumedRun, DataThatIsGoneIsNamed) {
  options_.epochs = 3;
  HeadTrainHooks hooks = quiet();
  hooks.log = [this](std::string_view) {
    for (const auto& shard : list_shards(data_.path())) std::filesystem::remove(shard);
  };
  try {
    train(options_, hooks);
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no response of two tokens or more"),
              std::string::npos)
        << error.what();
  }
}

/// A checkpoint without what later ones have.
void make_older(const std::filesystem::path& file) {
  const Checkpoint checkpoint = read_safetensors(file);
  Json state = Json::parse(checkpoint.metadata["state"].get<std::string>());
  for (const char* name : {"best_scores", "best_facts", "measured_with", "concluded", "scales",
                           "evaluated", "data_pairs"})
    EXPECT_EQ(state.erase(name), 1U) << name;
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : checkpoint.tensors)
    tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
  const auto older = file.parent_path() / "older";
  write_safetensors(
      older, tensors,
      {{"state", state.dump()}, {"settings", checkpoint.metadata["settings"].get<std::string>()}});
  std::filesystem::rename(older, file);
}

TEST_F(ResumedRun, AnOlderCheckpointGoesOnToTheSameHead) {
  train(options_, scoring({9, 10}, "questions"));
  const std::string straight = head();
  std::filesystem::remove_all(out_.path());
  train(options_, stopped_after(1, scoring({9}, "questions")));
  make_older(out_.path() / "checkpoint.safetensors");
  EXPECT_EQ(train(options_, scoring({10}, "questions")).scores, (HeadScores{{"chain4", 10}}));
  EXPECT_EQ(head(), straight);
}

}  // namespace
}  // namespace talon::resume_test
