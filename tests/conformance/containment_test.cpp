#include <gtest/gtest.h>

#include "draft/random_tree.h"
#include "draft/registry.h"
#include "faulty_allocations.h"
#include "faulty_parts.h"
#include "models.h"
#include "text/detokenizer.h"

// One component throws at its nth call, for every n; whatever happens then, no answer may hold a
// token that plain decoding would not have given: not the ones under way, not later ones in the
// same engine, not those of a new engine on the same cache. As leveldb's fault injection.

namespace talon::test::containment_test {
namespace {

const Tokenizer& small_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin");
  return tokenizer;
}

/// A text of more than a page.
std::vector<TokenId> long_prompt(std::initializer_list<TokenId> end) {
  std::vector<TokenId> prompt = {1};
  while (prompt.size() < kPageRows + 6) {
    prompt.push_back(static_cast<TokenId>(260 + (prompt.size() * prompt.size() * 7) % 240));
  }
  prompt.insert(prompt.end(), end);
  return prompt;
}

Request asking(std::vector<TokenId> prompt, int max_new, double temperature = 0) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_new = max_new;
  request.sampler.temperature = temperature;
  request.seed = 7;
  return request;
}

/// Two that share a page, a drawn one with a stop text that never comes, and one that comes last
/// and begins as the first.
std::vector<Request> first_requests() {
  std::vector<Request> requests = {
      asking(long_prompt({403, 407}), 5), asking(long_prompt({261, 378, 300}), 4),
      asking({1, 403, 407}, 6, 0.8), asking(long_prompt({403, 407}), 6)};
  requests[2].stop_texts = {"no such text"};
  return requests;
}

struct Setting {
  std::string drafter = "knowing";  // or as make_drafter() reads it
  std::string policy = "fixed";
};

/// Model, plain answers, and what an engine made with faults is compared with.
class Containment : public testing::Test {
 protected:
  Containment() {
    auto faulty = std::make_unique<FaultyBackend>(cpu_backend(1));
    backend_ = faulty.get();
    model_ = std::make_unique<TestModel>(kStories260k, std::move(faulty));
    requests_ = first_requests();
    for (const Request& request : requests_) plain_.push_back(answer_plainly(request));
    // Later prompts begin with the earlier ones and the beginnings of their answers.
    for (const std::size_t i : {0, 1}) {
      for (const std::size_t known : {1, 3}) {
        std::vector<TokenId> prompt = requests_[i].prompt;
        prompt.insert(prompt.end(), plain_[i].tokens.begin(),
                      plain_[i].tokens.begin() + static_cast<std::ptrdiff_t>(known));
        later_.push_back(asking(std::move(prompt), 3));
        plain_later_.push_back(answer_plainly(later_.back()));
      }
    }
  }

  Answer answer_plainly(Request request) {
    request.reuse_prefix = false;
    TestOptions options;
    options.tokenizer = &small_tokenizer();
    return TestEngine(*model_, make_drafter("none", {}), options).run(request);
  }

  std::unique_ptr<Drafter> make(const Setting& setting) {
    if (setting.drafter != "knowing") {
      return make_drafter(setting.drafter, DrafterContext{&model_->model});
    }
    std::vector<std::vector<TokenId>> texts;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      texts.push_back(requests_[i].prompt);
      texts.back().insert(texts.back().end(), plain_[i].tokens.begin(), plain_[i].tokens.end());
    }
    return make_random_tree_drafter({.hit = 0.8, .vocabulary = model_->vocabulary()},
                                    std::move(texts));
  }

  /// Runs the requests in an engine that meets the fault, then the later ones, there and in a new
  /// engine on the same cache. Whether the fault came.
  bool run(const Setting& setting, Trigger& trigger, long at, bool lasts);
  void sweep(const Setting& setting, Trigger& trigger, bool lasts, long most = 1'000'000) {
    long at = 1;
    while (at <= most && !HasFailure() && run(setting, trigger, at, lasts)) ++at;
    EXPECT_GT(at, 5) << "hardly a call to fail";
    RecordProperty("faults", static_cast<int>(at - 1));
  }
  void expect_answer(const Answer& answer, const Answer& plain) const;
  void expect_later(Engine& engine, std::size_t first) const;

  FaultyBackend* backend_;
  std::unique_ptr<TestModel> model_;
  std::vector<Request> requests_, later_;
  std::vector<Answer> plain_, plain_later_;
  Trigger trigger_;
  bool may_fail_ = true;  // answers under way
  bool faulty_drafter_ = false, faulty_rule_ = false, faulty_policy_ = false;
  RoundObserver observer_;
  CommitListener* listener_ = nullptr;
  Timekeeper timekeeper_;
};

void Containment::expect_answer(const Answer& answer, const Answer& plain) const {
  if (answer.finish == FinishReason::failed) {
    EXPECT_TRUE(may_fail_);
    EXPECT_FALSE(answer.error.empty());
    ASSERT_LE(answer.tokens.size(), plain.tokens.size());
    EXPECT_TRUE(std::equal(answer.tokens.begin(), answer.tokens.end(), plain.tokens.begin()));
    EXPECT_TRUE(plain.text.starts_with(answer.text)) << answer.text;
    return;
  }
  EXPECT_EQ(answer.finish, plain.finish);
  EXPECT_EQ(answer.tokens, plain.tokens);
  EXPECT_EQ(answer.text, plain.text);
}

/// Every other of the later requests.
void Containment::expect_later(Engine& engine, std::size_t first) const {
  for (std::size_t i = first; i < later_.size(); i += 2) {
    const SequenceId id = std::get<SequenceId>(engine.submit(later_[i]));
    std::vector<TokenId> tokens;
    while (!engine.idle()) {
      for (const Progress& progress : engine.step()) {
        EXPECT_EQ(progress.sequence, id);
        tokens.insert(tokens.end(), progress.tokens.begin(), progress.tokens.end());
      }
    }
    EXPECT_EQ(tokens, plain_later_[i].tokens);
  }
}

bool Containment::run(const Setting& setting, Trigger& trigger, long at, bool lasts) {
  SCOPED_TRACE(fmt::format("{}, {}, fault {}{}", setting.drafter, setting.policy, at,
                           lasts ? " and all after it" : ""));
  TestOptions options;
  options.chunk = 24;
  options.max_rows = 40;
  options.max_nodes = 12;
  options.policy = setting.policy;
  options.tokenizer = &small_tokenizer();
  options.observer = observer_;
  options.listener = listener_;
  options.timekeeper = timekeeper_;
  std::unique_ptr<Drafter> drafter = make(setting);
  if (faulty_drafter_) drafter = std::make_unique<FaultyDrafter>(std::move(drafter), trigger);
  std::unique_ptr<Verifier> rule = make_verifier("follow");
  if (faulty_rule_) rule = std::make_unique<FaultyRule>(trigger);
  TestEngine test(*model_, std::move(drafter), options, 16, std::move(rule));
  MethodId method = 0;
  if (faulty_policy_) {
    auto policy = std::make_shared<FaultyPolicy>(make_policy(setting.policy), trigger);
    method = test.engine.add({test.drafter, std::move(policy), make_verifier("follow")});
  }

  trigger.arm(at, lasts);
  std::vector<Answer> answers(requests_.size());
  std::vector<SequenceId> ids;
  int step = 0;
  for (; step < 100 && (ids.size() < requests_.size() || !test.engine.idle()); ++step) {
    if (ids.size() < 3 || (ids.size() < requests_.size() && step >= 8)) {
      Request request = requests_[ids.size()];
      request.method = method;
      ids.push_back(test.submit(request));
    }
    std::span<const Progress> news;
    try {
      const FaultyAllocations scope;
      news = test.engine.step();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "step threw: " << error.what();
      break;
    }
    for (const Progress& progress : news) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] == progress.sequence) test.note(progress, answers[i]);
      }
    }
  }
  const bool fired = trigger.fired;
  trigger.arm(0, false);
  EXPECT_TRUE(test.engine.idle());
  EXPECT_LT(step, 100);
  for (std::size_t i = 0; i < answers.size(); ++i) expect_answer(answers[i], plain_[i]);
  EXPECT_EQ(test.cache.free_pages(), test.cache.total_pages());
  expect_later(test.engine, 0);
  Engine another(model_->model, test.cache, {});
  another.add({make_drafter("none", {}), make_policy("fixed"), make_verifier("follow")});
  expect_later(another, 1);
  return fired;
}

TEST_F(Containment, OfTokensThatTheTokenizerLacksWhichAddNoText) {
  const auto smaller = Tokenizer::from_json_file(TALON_TEST_DATA "/text/unigram/tokenizer.json");
  TestOptions options;
  options.tokenizer = &smaller;
  TestEngine test(*model_, make_drafter("none", {}), options);
  int unknown = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const Answer answer = test.run(requests_[i]);
    EXPECT_EQ(answer.tokens, plain_[i].tokens);
    EXPECT_EQ(answer.finish, plain_[i].finish);
    std::vector<TokenId> known = answer.tokens;
    unknown += static_cast<int>(
        std::erase_if(known, [&](TokenId token) { return token >= smaller.vocabulary_size(); }));
    std::string text;
    Detokenizer detokenizer(smaller);
    for (const TokenId token : known) text += detokenizer.push(token);
    EXPECT_EQ(answer.text, text + detokenizer.finish());
  }
  EXPECT_GT(unknown, 3);
}

TEST_F(Containment, OfARule) {
  faulty_rule_ = true;
  sweep({}, trigger_, /*lasts=*/false);
  sweep({}, trigger_, /*lasts=*/true);
}

TEST_F(Containment, OfADrafterWhoseSequencesThenDecodePlainly) {
  faulty_drafter_ = true;
  may_fail_ = false;
  sweep({}, trigger_, /*lasts=*/false);
  sweep({.drafter = "suffix", .policy = "throughput"}, trigger_, /*lasts=*/true);
}

TEST_F(Containment, OfAPolicyWhoseSequencesThenDecodePlainly) {
  faulty_policy_ = true;
  may_fail_ = false;
  sweep({.policy = "throughput"}, trigger_, /*lasts=*/false);
  sweep({.drafter = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head+ngram",
         .policy = "throughput"},
        trigger_, /*lasts=*/false);
}

TEST_F(Containment, OfAnObserverAndATimekeeperWhichAreHeedless) {
  may_fail_ = false;
  observer_ = [&](const RoundReport&) { trigger_.tick(); };
  sweep({}, trigger_, /*lasts=*/true);
  observer_ = {};
  timekeeper_ = [&](StepPart, double ms) {
    trigger_.tick();
    return ms;
  };
  sweep({.policy = "throughput"}, trigger_, /*lasts=*/false);
}

TEST_F(Containment, OfAListenerThatHearsNoMore) {
  may_fail_ = false;
  FaultyListener listener(trigger_);
  listener_ = &listener;
  sweep({}, trigger_, /*lasts=*/false);
  sweep({.drafter = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head"}, trigger_,
        /*lasts=*/true);
}

TEST_F(Containment, OfABackend) {
  sweep({}, backend_->trigger, /*lasts=*/false);
  sweep({.drafter = "none"}, backend_->trigger, /*lasts=*/true);
}

TEST_F(Containment, OfABackendThatAHeadUsesAsWell) {
  sweep({.drafter = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head+ngram"},
        backend_->trigger, /*lasts=*/false);
}

TEST_F(Containment, OfAllocations) {
  sweep({.drafter = "none"}, allocation_trigger(), /*lasts=*/false);
  sweep({.drafter = "suffix", .policy = "throughput"}, allocation_trigger(), /*lasts=*/false);
}

TEST_F(Containment, OfAllocationsFromOneOnForAWhile) {
  sweep({.drafter = "suffix"}, allocation_trigger(), /*lasts=*/true);
}

TEST_F(Containment, OfAllocationsInAHead) {
  sweep({.drafter = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head+ngram",
         .policy = "throughput"},
        allocation_trigger(), /*lasts=*/false);
}

}  // namespace
}  // namespace talon::test::containment_test
