#include <gtest/gtest.h>

#include <fstream>
#include <initializer_list>
#include <map>
#include <numeric>
#include <random>

#include "backend/cpu/cpu.h"
#include "draft/random_tree.h"
#include "draft/registry.h"
#include "engine/engine.h"
#include "engine/test_model.h"
#include "io/json.h"
#include "text/tokenizer.h"

namespace talon::preemption_test {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;

TestModel& small_model() {
  CpuOptions options;
  options.threads = 1;
  options.pin = false;
  static TestModel model(TALON_TEST_DATA "/golden/stories260k/target", make_cpu_backend(options));
  return model;
}
const Tokenizer& small_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin");
  return tokenizer;
}
std::string head(const std::string& name) { return TALON_TEST_DATA "/golden/stories260k/" + name; }

test::TestOptions with_text(std::string policy = "fixed") {
  test::TestOptions options;
  options.policy = std::move(policy);
  options.tokenizer = &small_tokenizer();
  return options;
}

Request request(int prompt, int max_new, std::uint64_t seed) {
  Request result;
  std::mt19937 random(static_cast<unsigned>(seed));
  for (int i = 0; i < prompt; ++i) result.prompt.push_back(static_cast<TokenId>(random() % 512));
  result.max_new = max_new;
  result.sampler.temperature = 1;
  result.seed = seed;
  return result;
}

/// The answer of plain decoding with nobody beside it.
Answer alone(const Request& asked) {
  return TestEngine(small_model(), make_drafter("none", {}), with_text(), 16).run(asked);
}

void expect_same(const Answer& found, const Answer& expected) {
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.text, expected.text);
  EXPECT_EQ(found.finish, expected.finish);
  EXPECT_EQ(found.statistics.answer_tokens, expected.statistics.answer_tokens);
}

int preemptions_of(const std::vector<Answer>& answers) {
  int sum = 0;
  for (const Answer& answer : answers) sum += answer.statistics.preemptions;
  return sum;
}

TEST(Preemption, TheYoungestGivesWayAndGoesOnWithTheSameAnswer) {
  for (const char* drafter : {"none", "ngram", "suffix:history=500"}) {
    std::vector<Request> requests;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) requests.push_back(request(20, 250, seed));
    TestEngine test(small_model(), make_drafter(drafter, {}), with_text(), 6);
    const std::vector<Answer> answers = test.run(requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      expect_same(answers[i], alone(requests[i]));
      const SequenceStatistics& statistics = answers[i].statistics;
      EXPECT_EQ(static_cast<int>(statistics.accepted.size()), statistics.rounds);
      EXPECT_EQ(1 + statistics.rounds +
                    std::accumulate(statistics.accepted.begin(), statistics.accepted.end(), 0),
                statistics.answer_tokens);
    }
    EXPECT_EQ(answers[0].statistics.preemptions, 0) << "the oldest is never set back";
    EXPECT_EQ(answers[0].statistics.recomputed_tokens, 0);
    EXPECT_GT(preemptions_of(answers), 0);
    EXPECT_GT(answers[3].statistics.recomputed_tokens, 0);
    EXPECT_EQ(test.cache.free_pages(), 6);
  }
}

TEST(Preemption, StopTextsAreFoundAcrossASetBack) {
  const Request first = request(20, 250, 1);
  Request second = request(20, 250, 2);
  const std::string text = alone(second).text;
  ASSERT_GT(text.size(), 420u);
  int set_back = 0;
  for (std::size_t begin = 200; begin < 400; begin += 19) {
    second.stop_texts = {text.substr(begin, 6)};
    TestEngine test(small_model(), make_drafter("ngram", {}), with_text(), 4);
    const std::vector<Answer> answers = test.run({first, second});
    expect_same(answers[1], alone(second));
    EXPECT_EQ(answers[1].finish, FinishReason::stop_text);
    set_back += answers[1].statistics.preemptions;
  }
  EXPECT_GT(set_back, 0);
}

TEST(Preemption, ASetBackSequenceCanBeCancelledWhileItWaits) {
  TestEngine test(small_model(), make_drafter("none", {}), with_text(), 4);
  const SequenceId first = test.submit(request(20, 220, 1)),
                   second = test.submit(request(20, 220, 2));
  while (test.engine.statistics(second).preemptions == 0) test.engine.step();
  test.engine.cancel(second);
  const int before = test.engine.statistics(second).answer_tokens;
  FinishReason finish = FinishReason::none;
  for (const Progress& progress : test.engine.step()) {
    if (progress.sequence == second) finish = progress.finish;
  }
  EXPECT_EQ(finish, FinishReason::cancelled);
  EXPECT_EQ(test.engine.statistics(second).answer_tokens, before);
  EXPECT_EQ(test.engine.statistics(first).preemptions, 0);
  while (!test.engine.idle()) test.engine.step();
  EXPECT_EQ(test.cache.free_pages(), 4);
}

TEST(Preemption, ASmallRequestPassesALargeOneThatHasNoRoom) {
  TestEngine test(small_model(), make_drafter("none", {}), with_text(), 4);
  const SequenceId running = test.submit(request(100, 100, 1)),
                   large = test.submit(request(200, 40, 2)), small = test.submit(request(5, 5, 3));
  std::vector<SequenceId> ended;
  while (!test.engine.idle()) {
    for (const Progress& progress : test.engine.step())
      if (progress.finish != FinishReason::none) ended.push_back(progress.sequence);
  }
  EXPECT_EQ(ended, (std::vector{small, running, large}));
}

/// 64 long answers need 64 contexts if each holds its room for life; here are three.
TEST(Preemption, SixtyFourLongAnswersRunInAFewContexts) {
  constexpr int kContext = 512, kPages = 3 * kContext / kPageRows;
  std::vector<Request> requests;
  for (std::uint64_t seed = 1; seed <= 64; ++seed) requests.push_back(request(8, 4096, seed));
  test::TestOptions options = with_text();
  options.max_nodes = 8;
  TestEngine test(small_model(), make_drafter("ngram", {}), options, kPages);
  const std::vector<Answer> answers = test.run(requests);
  long answered = 0, recomputed = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(answers[i].finish, FinishReason::length);
    EXPECT_EQ(answers[i].tokens.size(), kContext - requests[i].prompt.size());
    answered += answers[i].statistics.answer_tokens;
    recomputed += answers[i].statistics.recomputed_tokens;
    if (i % 8 == 0) expect_same(answers[i], alone(requests[i]));
  }
  EXPECT_GT(preemptions_of(answers), 64);
  EXPECT_LT(recomputed, answered);
  RecordProperty("recomputed_per_answered",
                 std::to_string(static_cast<double>(recomputed) / static_cast<double>(answered)));
  EXPECT_EQ(test.cache.free_pages(), kPages);
}

/// Of layers that see the last 300 positions only, and a context of many pages.
TestModel windowed_model() {
  namespace fs = std::filesystem;
  const fs::path stored = TALON_TEST_DATA "/golden/families/mistral_window";
  const fs::path folder = fs::path(testing::TempDir()) / "talon_preemption_window";
  fs::create_directories(folder);
  fs::copy(stored / "model.safetensors", folder / "model.safetensors",
           fs::copy_options::overwrite_existing);
  std::ifstream file(stored / "config.json");
  Json config = Json::parse(file);
  config["max_position_embeddings"] = 2048;
  config["sliding_window"] = 300;
  std::ofstream(folder / "config.json") << config;
  return TestModel(folder, make_cpu_backend({.threads = 1, .pin = false}));
}

/// Pages that a text lets go of do not become free while others of the same prefix hold them.
TEST(Preemption, TextsWithWindowsThatShareAPrefixGoOnInAFullCache) {
  TestModel model = windowed_model();
  std::vector<Request> requests;
  for (int i = 0; i < 4; ++i) {
    Request asked = request(600 + 100 * i, 300, 1 + static_cast<std::uint64_t>(i));
    for (TokenId& token : asked.prompt) token %= model.vocabulary();
    if (i > 0) std::copy_n(requests[0].prompt.begin(), 600, asked.prompt.begin());
    requests.push_back(std::move(asked));
  }
  test::TestOptions options;
  options.policy = "fixed";
  options.chunk = 64;
  KvShape shape = kv_shape(model.model.config, 100);
  shape.near.pages = 15;
  TestEngine test(model, make_drafter("none", {}), options, shape);
  const std::vector<Answer> answers = test.run(requests, 10);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    TestEngine roomy(model, make_drafter("none", {}), options, 100);
    EXPECT_EQ(answers[i].error, "");
    EXPECT_EQ(answers[i].tokens, roomy.run(requests[i]).tokens);
  }
  EXPECT_GT(preemptions_of(answers), 0);
  EXPECT_EQ(test.cache.free_pages(), 15);
}

/// Requests that begin alike, arrive at any time and are cancelled at any time, in caches too small
/// for them.
class RandomSituation {
 public:
  explicit RandomSituation(unsigned seed) : random_(seed) {
    const int count = 3 + pick(6);
    for (int i = 0; i < count; ++i) add_request();
    drafter_ = make();
    options_ = with_text(one_of<std::string>({"fixed", "throughput", "eagle2", "static"}));
    options_.chunk = one_of({1, 7, 64, 256});
    options_.max_rows = one_of({2, 9, 70, 300});
    options_.max_nodes = one_of({0, 3, 16, 64});
    pages_ = 2 + pick(7);
  }

  void run() {
    TestEngine test(small_model(), std::move(drafter_), options_, pages_);
    std::map<SequenceId, std::size_t> which;
    std::vector<Answer> answers(requests_.size());
    std::vector<bool> taken(requests_.size());
    std::size_t next = 0;
    while (next < requests_.size() || !test.engine.idle()) {
      if (next < requests_.size() && (test.engine.idle() || pick(4) == 0)) {
        const auto result = test.engine.submit(requests_[next]);
        if (const auto* id = std::get_if<SequenceId>(&result)) {
          which[*id] = next;
          taken[next] = true;
        }
        ++next;
      }
      if (pick(1500) == 0 && !which.empty()) {
        test.engine.cancel(1 + static_cast<SequenceId>(pick(static_cast<int>(which.size()))));
      }
      for (const Progress& progress : test.engine.step()) {
        test.note(progress, answers[which.at(progress.sequence)]);
      }
      ASSERT_LT(++steps_, 50000) << "it stalls";
    }
    EXPECT_EQ(test.cache.free_pages(), pages_);
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (taken[i]) check(answers[i], requests_[i]);
    }
    preemptions += preemptions_of(answers);
  }

  int preemptions = 0, whole = 0;

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[pick(static_cast<int>(values.size()))];
  }

  void add_request() {
    Request asked = request(1 + pick(150), one_of({20, 150, 250, 400}), random_());
    if (!requests_.empty() && pick(2) == 0) {
      const std::vector<TokenId>& known = requests_.back().prompt;
      const auto shared = static_cast<std::ptrdiff_t>(random_() % (known.size() + 1));
      asked.prompt.insert(asked.prompt.begin(), known.begin(), known.begin() + shared);
    }
    asked.sampler.temperature = one_of({0.0F, 0.7F, 1.5F});
    if (pick(3) == 0) asked.sampler.repetition_penalty = 1.2F;
    if (pick(5) == 0) asked.end_tokens = {1, 13};
    if (pick(4) == 0) asked.stop_texts = {"zebra", "they"};
    asked.reuse_prefix = pick(5) > 0;
    requests_.push_back(asked);
  }

  std::unique_ptr<Drafter> make() {
    if (pick(6) == 0) {
      std::vector<std::vector<TokenId>> texts;
      for (const Request& asked : requests_) {
        std::vector<TokenId> text = asked.prompt;
        const Answer answer = alone(asked);
        text.insert(text.end(), answer.tokens.begin(), answer.tokens.end());
        texts.push_back(std::move(text));
      }
      return make_random_tree_drafter({.hit = 0.8, .vocabulary = small_model().vocabulary()},
                                      texts);
    }
    const auto text = one_of<std::string>(
        {"none", "ngram", "suffix:history=300", "eagle2:head=" + head("eagle1_head"),
         "eagle3:head=" + head("eagle3_head") + "+suffix:history=2000"});
    return make_drafter(text, {.target = &small_model().model,
                               .head = "",
                               .cache_positions = one_of<std::size_t>({0, 64, 200})});
  }

  void check(const Answer& found, const Request& asked) {
    const Answer expected = alone(asked);
    ASSERT_LE(found.tokens.size(), expected.tokens.size());
    EXPECT_TRUE(std::equal(found.tokens.begin(), found.tokens.end(), expected.tokens.begin()));
    if (found.finish == FinishReason::cancelled) return;
    if (found.finish == FinishReason::no_room) {
      EXPECT_EQ(static_cast<int>(found.tokens.size() + asked.prompt.size()), pages_ * kPageRows);
      return;
    }
    expect_same(found, expected);
    ++whole;
  }

  std::mt19937 random_;
  std::vector<Request> requests_;
  std::unique_ptr<Drafter> drafter_;
  test::TestOptions options_;
  int pages_ = 0;
  int steps_ = 0;
};

TEST(Preemption, InRandomSituationsEveryAnswerIsThatOfPlainDecodingAlone) {
  int preemptions = 0, whole = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    RandomSituation situation(seed);
    situation.run();
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
    preemptions += situation.preemptions;
    whole += situation.whole;
  }
  EXPECT_GT(preemptions, 30);  // the test would be empty without them
  EXPECT_GT(whole, 100);
}

}  // namespace
}  // namespace talon::preemption_test
