#include "engine/engine.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "draft/random_tree.h"
#include "draft/registry.h"
#include "engine/test_model.h"
#include "model/target.h"
#include "text/tokenizer.h"

namespace talon::engine_test {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;

const std::vector<TokenId> kPrompt = {1, 403, 407, 261, 378};
constexpr int kNew = 48;

TestModel& small_model() {
  static TestModel model(TALON_TEST_DATA "/golden/stories260k/target", make_reference_backend(1));
  return model;
}
const Tokenizer& small_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin");
  return tokenizer;
}

Request request(int max_new = kNew) {
  Request result;
  result.prompt = kPrompt;
  result.max_new = max_new;
  return result;
}

std::unique_ptr<Drafter> plain() { return make_drafter("none", {}); }

/// Knows the plain answer to `asked` and proposes it often.
std::unique_ptr<Drafter> knowing(const Request& asked, const std::vector<TokenId>& answer,
                                 double hit = 1) {
  std::vector<TokenId> text = asked.prompt;
  text.insert(text.end(), answer.begin(), answer.end());
  return make_random_tree_drafter({.hit = hit, .vocabulary = small_model().vocabulary()}, {text});
}

const std::vector<TokenId>& plain_answer() {
  static const std::vector<TokenId> answer =
      TestEngine(small_model(), plain()).run(request()).tokens;
  return answer;
}

std::unique_ptr<Drafter> knowing_drafter() { return knowing(request(), plain_answer()); }

test::TestOptions fixed_policy() {
  test::TestOptions options;
  options.policy = "fixed";
  return options;
}

TEST(Engine, PlainDecodingEmitsOneTokenPerRound) {
  TestEngine test(small_model(), plain());
  const Answer answer = test.run(request());
  EXPECT_EQ(answer.finish, FinishReason::length);
  ASSERT_EQ(answer.tokens.size(), static_cast<std::size_t>(kNew));
  EXPECT_EQ(answer.statistics.rounds, kNew - 1);
  EXPECT_EQ(answer.statistics.accepted, std::vector<int>(kNew - 1, 0));
  EXPECT_TRUE(test.engine.idle());
  EXPECT_TRUE(test.engine.step().empty());
}

TEST(Engine, DraftsGiveTheSameTokensInFewerRounds) {
  TestEngine test(small_model(), knowing_drafter(), fixed_policy());
  const Answer answer = test.run(request());
  EXPECT_EQ(answer.tokens, plain_answer());
  EXPECT_LT(answer.statistics.rounds, kNew / 2);
}

TEST(Engine, TheTokenLimitIsExactWhateverIsAccepted) {
  for (int limit = 1; limit < 20; ++limit) {
    TestEngine test(small_model(), knowing_drafter(), fixed_policy());
    const Answer answer = test.run(request(limit));
    EXPECT_EQ(answer.finish, FinishReason::length);
    EXPECT_EQ(answer.tokens,
              std::vector<TokenId>(plain_answer().begin(), plain_answer().begin() + limit));
  }
}

TEST(Engine, AnEndTokenIsTheLastTokenAlsoInsideAnAcceptedPath) {
  for (std::size_t end = 0; end < 30; ++end) {
    Request asked = request();
    asked.end_tokens = {510, plain_answer()[end]};
    const auto first = std::find(plain_answer().begin(), plain_answer().end(), plain_answer()[end]);
    TestEngine test(small_model(), knowing_drafter(), fixed_policy());
    const Answer answer = test.run(asked);
    EXPECT_EQ(answer.finish, FinishReason::stop_token);
    EXPECT_EQ(answer.tokens, std::vector<TokenId>(plain_answer().begin(), first + 1));
  }
}

TEST(Engine, AStopTextEndsTheAnswerAtTheTokenThatCompletesItAndTheTextBeforeIt) {
  test::TestOptions options = fixed_policy();
  options.tokenizer = &small_tokenizer();
  const std::string text = TestEngine(small_model(), plain(), options).run(request()).text;
  ASSERT_GT(text.size(), 60u);
  for (std::size_t begin = 0; begin + 3 < 60; ++begin) {
    Request asked = request();
    asked.stop_texts = {"no such text", text.substr(begin, 3)};
    const std::size_t first = text.find(asked.stop_texts[1]);
    TestEngine plain_test(small_model(), plain(), options),
        drafting(small_model(), knowing_drafter(), options);
    const Answer expected = plain_test.run(asked), answer = drafting.run(asked);
    EXPECT_EQ(expected.finish, FinishReason::stop_text);
    EXPECT_EQ(expected.text, text.substr(0, first));
    EXPECT_EQ(answer.text, expected.text);
    EXPECT_EQ(answer.tokens, expected.tokens);
    EXPECT_EQ(answer.finish, expected.finish);
  }
}

TEST(Engine, TextIsWhatTheTokenizerDecodesWithoutTheEndToken) {
  test::TestOptions options;
  options.tokenizer = &small_tokenizer();
  Request asked = request();
  asked.end_tokens = {plain_answer()[20]};
  const Answer answer = TestEngine(small_model(), plain(), options).run(asked);
  std::string expected;
  for (const TokenId token : std::span(answer.tokens).first(answer.tokens.size() - 1)) {
    expected += small_tokenizer().bytes_of(token);
  }
  EXPECT_EQ(answer.text, expected);
}

TEST(Engine, TheAnswerEndsWhereTheContextDoes) {
  TestModel model(TALON_TEST_DATA "/golden/stories260k/target", make_reference_backend(1), 20);
  for (auto make : {+[] { return plain(); }, +[] { return knowing_drafter(); }}) {
    const Answer answer = TestEngine(model, make(), fixed_policy()).run(request());
    EXPECT_EQ(answer.finish, FinishReason::length);
    EXPECT_EQ(answer.tokens,
              std::vector<TokenId>(plain_answer().begin(), plain_answer().begin() + 15));
  }
}

TEST(Engine, TheAnswerEndsWhereTheCacheDoesWithNoRoom) {
  for (auto make : {+[] { return plain(); }, +[] { return make_drafter("ngram", {}); }}) {
    TestEngine test(small_model(), make(), fixed_policy(), 1);
    const Answer answer = test.run(request(200));
    EXPECT_EQ(answer.finish, FinishReason::no_room);
    EXPECT_EQ(answer.tokens.size(), static_cast<std::size_t>(kPageRows) - kPrompt.size());
  }
}

TEST(Engine, SequencesWaitForRoomInOrderOfSubmission) {
  TestEngine test(small_model(), plain(), {}, 2);
  std::vector<Request> requests(5, request(100));  // two pages each
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].seed = i;
  std::vector<SequenceId> ids, finished;
  for (const Request& asked : requests) ids.push_back(test.submit(asked));
  while (!test.engine.idle()) {
    for (const Progress& progress : test.engine.step()) {
      if (progress.finish != FinishReason::none) finished.push_back(progress.sequence);
    }
  }
  EXPECT_EQ(finished, ids);
}

TEST(Engine, CancelEndsRunningAndWaitingSequencesAtTheNextStep) {
  TestEngine test(small_model(), plain(), {}, 2);
  const SequenceId running = test.submit(request(100)), waiting = test.submit(request(100));
  const SequenceId last = test.submit(request(100));
  for (int i = 0; i < 4; ++i) test.engine.step();
  test.engine.cancel(waiting);
  std::map<SequenceId, FinishReason> ends;
  for (const Progress& progress : test.engine.step()) ends[progress.sequence] = progress.finish;
  EXPECT_EQ(ends[waiting], FinishReason::cancelled);
  EXPECT_EQ(ends[running], FinishReason::none);
  test.engine.cancel(running);
  test.engine.cancel(12345);
  bool told = false;
  for (const Progress& progress : test.engine.step()) {
    if (progress.sequence != running) continue;
    told = true;
    EXPECT_EQ(progress.finish, FinishReason::cancelled);
    EXPECT_TRUE(progress.tokens.empty());
  }
  EXPECT_TRUE(told);
  EXPECT_EQ(test.engine.statistics(running).answer_tokens, 5);
  test.engine.step();
  EXPECT_THROW(test.engine.statistics(running), Error);
  EXPECT_NO_THROW(test.engine.statistics(last));
  test.engine.cancel(last);
  test.engine.step();
  EXPECT_TRUE(test.engine.idle());
  EXPECT_EQ(test.cache.free_pages(), test.cache.total_pages());
}

TEST(Engine, ManySequencesShareFewRows) {
  test::TestOptions options;
  options.max_rows = 4;
  options.policy = "fixed";
  std::vector<Request> requests(7, request(12));
  TestEngine test(small_model(), knowing_drafter(), options);
  for (const Answer& answer : test.run(requests)) {
    EXPECT_EQ(answer.tokens,
              std::vector<TokenId>(plain_answer().begin(), plain_answer().begin() + 12));
  }
}

TEST(Engine, ARepeatedPromptIsFoundInTheCache) {
  TestEngine test(small_model(), plain());
  EXPECT_EQ(test.run(request()).statistics.reused_tokens, 0);
  const Answer again = test.run(request());
  EXPECT_EQ(again.statistics.reused_tokens, static_cast<int>(kPrompt.size()) - 1);
  EXPECT_EQ(again.tokens, plain_answer());
  Request fresh = request();
  fresh.reuse_prefix = false;
  EXPECT_EQ(test.run(fresh).statistics.reused_tokens, 0);
}

TEST(Engine, ATenantDoesNotFindTheTextsOfAnother) {
  TestEngine test(small_model(), plain());
  Request ours = request(), theirs = request();
  ours.tenant = 1;
  theirs.tenant = 2;
  for (const Request& asked : {ours, theirs}) {
    const Answer first = test.run(asked), again = test.run(asked);
    EXPECT_EQ(first.statistics.reused_tokens, 0);
    EXPECT_EQ(again.statistics.reused_tokens, static_cast<int>(kPrompt.size()) - 1);
    EXPECT_EQ(first.tokens, plain_answer());
    EXPECT_EQ(again.tokens, plain_answer());
  }
}

TEST(Engine, StatisticsAddUp) {
  TestEngine test(small_model(), knowing_drafter(), fixed_policy());
  Request asked = request();
  asked.end_tokens = {plain_answer()[33]};
  const SequenceStatistics statistics = test.run(asked).statistics;
  EXPECT_EQ(statistics.prompt_tokens, static_cast<int>(kPrompt.size()));
  EXPECT_EQ(static_cast<int>(statistics.accepted.size()), statistics.rounds);
  EXPECT_EQ(static_cast<int>(statistics.drafted.size()), statistics.rounds);
  EXPECT_EQ(1 + statistics.rounds +
                std::accumulate(statistics.accepted.begin(), statistics.accepted.end(), 0),
            statistics.answer_tokens);
  EXPECT_GT(statistics.prefill_ms, 0);
  EXPECT_GT(statistics.check_ms, 0);
  EXPECT_LE(statistics.draft_ms + statistics.check_ms, statistics.decode_ms);
}

TEST(Engine, ATokenThatCannotBeDrawnEndsTheSequenceAsFailed) {
  Request hopeless = request();
  hopeless.sampler.banned.resize(512);
  std::iota(hopeless.sampler.banned.begin(), hopeless.sampler.banned.end(), 0);
  TestEngine test(small_model(), plain());
  const auto answers = test.run({hopeless, request()});
  EXPECT_EQ(answers[0].finish, FinishReason::failed);
  EXPECT_NE(answers[0].error.find("all banned"), std::string::npos) << answers[0].error;
  EXPECT_EQ(answers[1].tokens, plain_answer());
}

/// Proposes as `inner` does, and writes down what it is shown.
class RecordingDrafter : public Drafter {
 public:
  struct State : DraftState {
    std::unique_ptr<DraftState> inner;
    std::vector<TokenId> tokens;
    std::vector<float> features;  // a row per token but the first
  };
  RecordingDrafter(std::unique_ptr<Drafter> inner, Backend& backend)
      : inner_(std::move(inner)), backend_(backend) {}
  DrafterTraits traits() const override { return {.taps = {{FeatureTap::kFinalNorm}, {2}}}; }
  std::unique_ptr<DraftState> start() override {
    auto state = std::make_unique<State>();
    state->inner = inner_->start();
    latest = state.get();
    return state;
  }
  void observe(DraftState& any_state, const CommittedTokens& committed) override {
    auto& state = static_cast<State&>(any_state);
    EXPECT_EQ(committed.first_position, static_cast<int>(state.tokens.size()));
    EXPECT_EQ(committed.first_has_row, committed.first_position > 0);
    EXPECT_EQ(committed.features.rows,
              static_cast<int>(committed.tokens.size()) - (committed.first_has_row ? 0 : 1));
    std::vector<float> rows(
        static_cast<std::size_t>(committed.features.rows * committed.features.cols));
    if (!rows.empty()) backend_.download(committed.features, rows);
    state.tokens.insert(state.tokens.end(), committed.tokens.begin(), committed.tokens.end());
    state.features.insert(state.features.end(), rows.begin(), rows.end());
    seen_tokens = state.tokens;
    seen_features = state.features;
    inner_->observe(*state.inner, committed);
  }
  void propose(std::span<DraftJob> jobs) override {
    std::vector<DraftJob> inner_jobs(jobs.begin(), jobs.end());
    for (DraftJob& job : inner_jobs) job.state = static_cast<State&>(*job.state).inner.get();
    inner_->propose(inner_jobs);
  }

  State* latest = nullptr;
  std::vector<TokenId> seen_tokens;
  std::vector<float> seen_features;

 private:
  std::unique_ptr<Drafter> inner_;
  Backend& backend_;
};

TEST(Engine, ADrafterSeesEachCommittedTokenOnceWithTheRowThatProducedIt) {
  TestModel& model = small_model();
  std::vector<TokenId> text = kPrompt;
  text.insert(text.end(), plain_answer().begin(), plain_answer().end());
  KvCache cache(*model.backend, kv_shape(model.model.config, 4));
  Target target(model.model, cache, 128, {{FeatureTap::kFinalNorm}, {2}});
  KvSequence sequence = cache.start(text, false);
  ASSERT_TRUE(sequence.reserve(static_cast<int>(text.size())));
  const std::vector<SequenceRows> batch = {{.sequence = &sequence, .tokens = text, .parents = {}}};
  const ForwardResult result = target.forward(batch);
  std::vector<float> expected(text.size() * static_cast<std::size_t>(target.feature_width()));
  model.backend->download(result.features, expected);

  for (const int chunk : {1, 2, 4, 5, 64}) {
    test::TestOptions options = fixed_policy();
    options.chunk = chunk;
    auto recording =
        std::make_unique<RecordingDrafter>(knowing(request(), plain_answer(), 0.8), *model.backend);
    RecordingDrafter& drafter = *recording;
    TestEngine test(model, std::move(recording), options);
    for (int repeat = 0; repeat < 2; ++repeat) {  // the second time a prefix could be reused
      const Answer answer = test.run(request());
      EXPECT_EQ(answer.tokens, plain_answer());
      EXPECT_EQ(answer.statistics.reused_tokens, 0);
      ASSERT_GT(drafter.seen_tokens.size(), text.size() - 20);
      EXPECT_TRUE(std::equal(drafter.seen_tokens.begin(), drafter.seen_tokens.end(), text.begin()));
      const std::size_t rows = drafter.seen_tokens.size() - 1;
      ASSERT_EQ(drafter.seen_features.size(),
                rows * static_cast<std::size_t>(target.feature_width()));
      EXPECT_TRUE(
          std::equal(drafter.seen_features.begin(), drafter.seen_features.end(), expected.begin()));
    }
  }
}

/// Has taps, and remembers the first tokens of every prompt.
class RememberingDrafter : public RecordingDrafter {
 public:
  RememberingDrafter(std::unique_ptr<Drafter> inner, Backend& backend, int most)
      : RecordingDrafter(std::move(inner), backend), most_(most) {}
  int remembers(std::span<const TokenId>, const TextOwner&) override {
    ++asked;
    return most_;
  }
  std::unique_ptr<DraftState> resume(std::span<const TokenId> known, const TextOwner&,
                                     std::span<const TokenId>) override {
    auto state = start();
    latest->tokens.assign(known.begin(), known.end());
    resumed = static_cast<int>(known.size());
    return state;
  }

  void finish(DraftState& state, bool) override {
    EXPECT_EQ(&state, latest);
    ++finished;
  }

  int resumed = 0;  // tokens
  int asked = 0;
  int finished = 0;  // sequences

 private:
  int most_;
};

TEST(Engine, ADrafterThatRemembersAPrefixSeesTheRowsAfterIt) {
  TestModel& model = small_model();
  for (const int most : {0, 1, 2, 3, 5}) {
    auto remembering = std::make_unique<RememberingDrafter>(plain(), *model.backend, most);
    RememberingDrafter& drafter = *remembering;
    TestEngine test(model, std::move(remembering), fixed_policy());
    EXPECT_EQ(test.run(request()).tokens, plain_answer());
    EXPECT_EQ(drafter.resumed, 0);  // nothing in the cache yet
    const std::vector<float> all = drafter.seen_features;
    const Answer again = test.run(request());
    EXPECT_EQ(again.tokens, plain_answer());
    const int reused = most > 1 ? most - 1 : 0;
    EXPECT_EQ(again.statistics.reused_tokens, reused);
    EXPECT_EQ(drafter.resumed, reused == 0 ? 0 : most);
    const std::size_t width = all.size() / (drafter.seen_tokens.size() - 1);
    const std::size_t skipped = static_cast<std::size_t>(reused) * width;
    EXPECT_EQ(drafter.seen_features,
              std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(skipped), all.end()));
  }
}

TEST(Engine, ADrafterIsToldOfTheEndWhereALaterSequenceMayBeginAlike) {
  TestModel& model = small_model();
  auto remembering = std::make_unique<RememberingDrafter>(plain(), *model.backend, 0);
  RememberingDrafter& drafter = *remembering;
  TestEngine test(model, std::move(remembering), fixed_policy());
  test.run(request());
  EXPECT_EQ(drafter.finished, 1);
  Request alone = request();
  alone.reuse_prefix = false;
  test.run(alone);
  EXPECT_EQ(drafter.finished, 1);
}

TEST(Engine, ADrafterIsAskedWhatItRemembersOnlyWhenThereMayBeRoom) {
  TestModel& model = small_model();
  auto remembering = std::make_unique<RememberingDrafter>(plain(), *model.backend, 0);
  RememberingDrafter& drafter = *remembering;
  TestEngine test(model, std::move(remembering), fixed_policy(), 3);
  for (int i = 0; i < 3; ++i) test.submit(request(100));
  int steps = 0;
  for (; !test.engine.idle(); ++steps) test.engine.step();
  EXPECT_GT(steps, 200) << "all three had room at once?";
  // Each is asked about once, and again whenever one has ended.
  EXPECT_EQ(drafter.asked, 6);
}

TEST(Engine, ACancelledSequenceThatWaitsDoesNotKeepTheNextFromBeingTried) {
  TestEngine test(small_model(), plain(), fixed_policy(), 3);
  const SequenceId running = test.submit(request(100)), large = test.submit(request(100)),
                   small = test.submit(request(3));
  test.engine.step();
  test.engine.cancel(large);
  std::vector<SequenceId> ended;
  while (!test.engine.idle()) {
    for (const Progress& progress : test.engine.step())
      if (progress.finish != FinishReason::none) ended.push_back(progress.sequence);
  }
  EXPECT_EQ(ended, (std::vector{large, small, running}));
}

}  // namespace
}  // namespace talon::engine_test
