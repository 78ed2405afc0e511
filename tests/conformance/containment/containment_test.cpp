#include "containment.h"

#include "draft/registry.h"
#include "faulty_parts.h"
#include "text/detokenizer.h"

namespace talon::test::containment_test {
namespace {

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

TEST_F(Containment, OfATokenizerAndTheDetokenizerThatAsksIt) {
  const FaultyTokenizer tokenizer(Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin"),
                                  trigger_);
  tokenizer_ = &tokenizer;
  for (const bool lasts : {false, true}) {
    sweep({}, trigger_, lasts);
    sweep({.drafter = "none"}, trigger_, lasts);
    sweep({.drafter = "suffix", .policy = "throughput"}, trigger_, lasts);
  }
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

/// Wherever it is asked: also within a drafter's call for all of its sequences.
TEST_F(Containment, OfAPolicyWhoseOwnSequencesAloneThenDecodePlainly) {
  const char* const head = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head";
  const std::vector<Request> asked = {requests_[0], requests_[1]};
  bool fired = true;
  int at = 1;
  for (; fired && !HasFailure(); ++at) {
    SCOPED_TRACE(at);
    TestOptions options;
    options.policy = "fixed";
    TestEngine test(*model_, make_drafter(head, DrafterContext{&model_->model}), options);
    std::vector<Request> requests = asked;
    auto policy = std::make_shared<FaultyPolicy>(make_policy("ddd:after=1/2"), trigger_);
    requests[1].method = test.engine.add({test.drafter, policy, make_verifier("follow")});
    trigger_.arm(at, /*for_ever=*/false);
    const std::vector<Answer> answers = test.run(requests);
    fired = trigger_.fired;
    trigger_.arm(0, false);
    for (const std::size_t i : {0, 1}) EXPECT_EQ(answers[i].tokens, plain_[i].tokens);
    const EngineStatistics& found = test.engine.statistics();
    EXPECT_EQ(found.throws.policy, fired ? 1 : 0);
    EXPECT_EQ(found.throws.drafter, 0);
    EXPECT_EQ(found.dropped, fired ? 1 : 0);
  }
  EXPECT_GT(at, 8) << "hardly a call to fail";
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
  backend_may_fail_ = true;
  sweep({}, backend_->trigger, /*lasts=*/false);
  sweep({.drafter = "none"}, backend_->trigger, /*lasts=*/true);
}

TEST_F(Containment, OfABackendThatAHeadUsesAsWell) {
  backend_may_fail_ = true;
  sweep({.drafter = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head+ngram"},
        backend_->trigger, /*lasts=*/false);
}

TEST_F(Containment, OfAllocations) {
  backend_may_fail_ = true;
  sweep({.drafter = "none"}, allocation_trigger(), /*lasts=*/false);
  sweep({.drafter = "suffix", .policy = "throughput"}, allocation_trigger(), /*lasts=*/false);
}

TEST_F(Containment, OfAllocationsFromOneOnForAWhile) {
  backend_may_fail_ = true;
  sweep({.drafter = "suffix"}, allocation_trigger(), /*lasts=*/true);
}

TEST_F(Containment, OfAllocationsInAHead) {
  backend_may_fail_ = true;
  sweep({.drafter = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head+ngram",
         .policy = "throughput"},
        allocation_trigger(), /*lasts=*/false);
}

}  // namespace
}  // namespace talon::test::containment_test
