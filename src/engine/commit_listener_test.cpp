#include "engine/commit_listener.h"

#include <gtest/gtest.h>

#include <map>

#include "backend/cpu/cpu.h"
#include "core/error.h"
#include "draft/random_tree.h"
#include "draft/registry.h"
#include "engine/test_model.h"
#include "model/target.h"

namespace talon::commit_listener_test {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;
using test::TestOptions;

const std::vector<FeatureTap> kTaps = {{FeatureTap::kFinalNorm}, {2}};
constexpr const char* kEagle3 = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head";

TestModel& small_model() {
  static TestModel model(TALON_TEST_DATA "/golden/stories260k/target",
                         make_cpu_backend({.threads = 1, .pin = false}));
  return model;
}

std::vector<Request> requests() {
  std::vector<Request> result(2);
  result[0].prompt = {1, 403, 407, 261, 378};
  result[1].prompt = {1, 403, 407, 300};
  result[1].sampler.temperature = 0.7;
  for (Request& request : result) request.max_new = 20;
  return result;
}

std::vector<TokenId> text_of(const Request& request, const Answer& answer) {
  std::vector<TokenId> text = request.prompt;
  text.insert(text.end(), answer.tokens.begin(), answer.tokens.end());
  return text;
}

/// The tapped rows of one forward over a text without its last token.
std::vector<float> rows_of(std::span<const TokenId> text) {
  TestModel& model = small_model();
  const auto run = text.first(text.size() - 1);
  KvCache cache(*model.backend, kv_shape(model.model.config, 4));
  Target target(model.model, cache, static_cast<int>(run.size()), kTaps);
  KvSequence sequence = cache.start(run, false);
  EXPECT_TRUE(sequence.reserve(static_cast<int>(run.size())));
  const SequenceRows rows{.sequence = &sequence, .tokens = run, .parents = {}};
  const View features = target.forward({&rows, 1}).features;
  std::vector<float> values(run.size() * static_cast<std::size_t>(features.cols));
  model.backend->download(features, values);
  return values;
}

/// Writes down what it is told.
class Notes : public CommitListener {
 public:
  struct Of {
    std::vector<TokenId> tokens;
    std::vector<float> rows;
    int known = 0, begins = 0, ends = 0;
  };

  explicit Notes(int most_known = 0) : most_known_(most_known) {}
  std::vector<FeatureTap> taps() const override { return kTaps; }
  int remembers(std::span<const TokenId>) override { return most_known_; }
  void begin(SequenceId sequence, std::span<const TokenId> known) override {
    Of& of = notes[sequence];
    EXPECT_EQ(of.begins++, of.ends);
    of.known = static_cast<int>(known.size());
    of.tokens.assign(known.begin(), known.end());
    of.rows.clear();
  }
  void committed(SequenceId sequence, const CommittedTokens& committed) override {
    if (throws_at && committed.first_position >= *throws_at) throw Error("the disk is full");
    Of& of = notes.at(sequence);
    EXPECT_EQ(committed.first_position, static_cast<int>(of.tokens.size()));
    EXPECT_EQ(committed.features.rows,
              static_cast<int>(committed.tokens.size()) - (committed.first_has_row ? 0 : 1));
    of.tokens.insert(of.tokens.end(), committed.tokens.begin(), committed.tokens.end());
    std::vector<float> rows(
        static_cast<std::size_t>(committed.features.rows * committed.features.cols));
    if (!rows.empty()) small_model().backend->download(committed.features, rows);
    of.rows.insert(of.rows.end(), rows.begin(), rows.end());
  }
  void end(SequenceId sequence) override { ++notes.at(sequence).ends; }

  std::map<SequenceId, Of> notes;
  std::optional<int> throws_at;  // from this position on

 private:
  int most_known_;
};

TestEngine engine_with(Notes& notes, const std::string& drafter, int chunk, int pages = 64) {
  TestOptions options;
  options.policy = "fixed";
  options.chunk = chunk;
  options.listener = &notes;
  const DrafterContext context{.target = &small_model().model};
  return TestEngine(small_model(), make_drafter(drafter, context), options, pages);
}

TEST(CommitListener, SeesEachTokenOnceWithTheRowThatProducedIt) {
  for (const char* drafter : {"none", "ngram", kEagle3}) {
    for (const int chunk : {1, 4, 64}) {
      Notes notes;
      TestEngine test = engine_with(notes, drafter, chunk);
      const auto answers = test.run(requests(), /*apart=*/2);
      ASSERT_EQ(notes.notes.size(), 2u);
      for (std::size_t i = 0; i < 2; ++i) {
        const Notes::Of& of = notes.notes.at(static_cast<SequenceId>(i + 1));
        EXPECT_EQ(of.tokens, text_of(requests()[i], answers[i])) << drafter << " " << chunk;
        EXPECT_EQ(of.rows, rows_of(of.tokens)) << drafter << " " << chunk;
        EXPECT_EQ(of.ends, 1);
      }
    }
  }
}

TEST(CommitListener, IsNotShownTheRowsThatItRemembers) {
  for (const int known : {0, 3}) {
    Notes notes(known);
    TestEngine test = engine_with(notes, "none", 64);
    const Request request = requests()[0];
    test.run(request);
    const Answer answer = test.run(request);
    EXPECT_EQ(answer.statistics.reused_tokens, std::max(known - 1, 0));
    const Notes::Of& of = notes.notes.at(2);
    EXPECT_EQ(of.known, known);
    EXPECT_EQ(of.tokens, text_of(request, answer));
    const std::vector<float> all = rows_of(of.tokens);
    const std::size_t width = all.size() / (of.tokens.size() - 1);
    const std::size_t skipped = static_cast<std::size_t>(std::max(known - 1, 0)) * width;
    EXPECT_EQ(of.rows,
              std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(skipped), all.end()));
  }
}

TEST(CommitListener, SeesASequenceThatWasSetBackAnew) {
  Notes notes;
  TestEngine test = engine_with(notes, "none", 64, /*pages=*/5);
  std::vector<Request> both = requests();
  for (Request& request : both) request.max_new = 200;
  const auto answers = test.run(both);
  EXPECT_GT(answers[1].statistics.preemptions, 0);
  for (std::size_t i = 0; i < 2; ++i) {
    const Notes::Of& of = notes.notes.at(static_cast<SequenceId>(i + 1));
    EXPECT_EQ(of.begins, 1 + answers[i].statistics.preemptions);
    EXPECT_EQ(of.ends, of.begins);
    EXPECT_EQ(of.tokens, text_of(both[i], answers[i]));
    EXPECT_EQ(of.rows, rows_of(of.tokens));
  }
}

TEST(CommitListener, ThatThrowsHearsNoMoreOfTheSequenceWhichGoesOn) {
  Notes notes;
  notes.throws_at = 10;
  TestEngine test = engine_with(notes, "none", 64);
  const Answer answer = test.run(requests()[0]);
  EXPECT_EQ(answer.finish, FinishReason::length);
  EXPECT_EQ(answer.tokens,
            TestEngine(small_model(), make_drafter("none", {})).run(requests()[0]).tokens);
  EXPECT_EQ(notes.notes.at(1).tokens.size(), 10u);
  EXPECT_EQ(notes.notes.at(1).ends, 0);
  EXPECT_EQ(test.engine.statistics().throws.observer, 1);
}

class DrafterWithoutMemory : public Drafter {
 public:
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  int remembers(std::span<const TokenId>, const TextOwner&) override {
    throw Error("the drafter's memory is gone");
  }
  void observe(DraftState&, const CommittedTokens&) override {}
  void propose(std::span<DraftJob>) override {}
};

class NotesWithoutMemory : public Notes {
 public:
  int remembers(std::span<const TokenId>) override { throw Error("the notes' memory is gone"); }
};

TEST(CommitListener, ThatThrowsIsNotTheReasonWhyDraftsWereDropped) {
  NotesWithoutMemory notes;
  TestOptions options;
  options.policy = "fixed";
  options.listener = &notes;
  TestEngine test(small_model(), std::make_unique<DrafterWithoutMemory>(), options);
  EXPECT_EQ(test.run(requests()[0]).finish, FinishReason::length);
  EXPECT_EQ(test.engine.statistics().throws.observer, 1);
  EXPECT_EQ(test.engine.statistics().dropped, 1);
  EXPECT_EQ(test.engine.drop_reason(), "the drafter's memory is gone");
}

}  // namespace
}  // namespace talon::commit_listener_test
