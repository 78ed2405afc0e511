#include <gtest/gtest.h>

#include <set>

#include "backend/reference/reference.h"
#include "draft/registry.h"
#include "engine/constraint/round_constraint.h"
#include "engine/test_model.h"
#include "text/grammar/grammar.h"

namespace talon::test::constrained_answer_test {
namespace {

constexpr const char* kStory = "Once upon a time, there was a little girl named Lily. She loved";

/// Answers of a small model that are constrained.
struct Constrained {
  explicit Constrained(GrammarText text, const std::string& drafter = "suffix",
                       TestOptions options = {})
      : model(TALON_TEST_DATA "/models/stories260K.bin", make_reference_backend(1)),
        tokenizer(Tokenizer::from_llama2c(TALON_TEST_DATA "/models/tok512.bin")),
        compiler(tokenizer, model.vocabulary()) {
    options.tokenizer = &tokenizer;
    engine.emplace(model, make_drafter(drafter, {}), options);
    request.prompt = tokenizer.encode("Once upon a time", {.add_start = true});
    request.max_new = 100;
    request.end_tokens = {2};
    request.constraint = compiler.compile(text);
  }

  TestModel model;
  Tokenizer tokenizer;
  GrammarCompiler compiler;
  std::optional<TestEngine> engine;
  Request request;
};

GrammarText only(const std::string& text) {
  return {GrammarText::Kind::choice, Json::array({text}).dump()};
}

TEST(ConstrainedAnswer, ForcedTokensCostNoForwardOfTheirOwn) {
  for (const char* policy : {"throughput", "fixed"}) {
    TestOptions options;
    options.policy = policy;
    Constrained plain(only(kStory), "none", options);
    const Answer expected = plain.engine->run(plain.request);
    EXPECT_EQ(expected.text, kStory);
    EXPECT_EQ(expected.finish, FinishReason::complete);
    EXPECT_EQ(expected.statistics.rounds, static_cast<int>(expected.tokens.size()) - 1);

    Constrained drafted(only(kStory), "suffix", options);
    const Answer answer = drafted.engine->run(drafted.request);
    EXPECT_EQ(answer.tokens, expected.tokens);
    EXPECT_EQ(answer.statistics.rounds, 1) << policy;
  }
}

TEST(ConstrainedAnswer, EndsAtAnEndTokenWhereTheGrammarMayGoOn) {
  Constrained test({GrammarText::Kind::regex, "a(b?)*"});
  test.request.sampler.logit_bias = {{2, 100.0F}};
  const Answer answer = test.engine->run(test.request);
  EXPECT_EQ(answer.text, "a");
  EXPECT_EQ(answer.finish, FinishReason::stop_token);
}

/// With end tokens that may not be drawn, and with drafts that reach beyond the last token.
TEST(ConstrainedAnswer, EndsWhereNothingMayFollowIt) {
  const GrammarText grammars[] = {{GrammarText::Kind::json_schema, R"({"enum": ["a dog"]})"},
                                  {GrammarText::Kind::gbnf, "root ::= \"a\" | \"bc\""},
                                  {GrammarText::Kind::regex, "a (cat|dog)"},
                                  only("a dog")};
  for (const GrammarText& grammar : grammars) {
    for (const bool ignores_end : {true, false}) {
      std::set<std::string> texts;
      for (const char* drafter : {"none", "suffix", "ngram"}) {
        Constrained test(grammar, drafter);
        if (ignores_end) test.request.end_tokens.clear();
        test.request.min_new = ignores_end ? 0 : 50;
        const Answer answer = test.engine->run(test.request);
        EXPECT_EQ(answer.finish, FinishReason::complete) << answer.error << answer.text;
        texts.insert(answer.text);
      }
      EXPECT_EQ(texts.size(), 1U) << grammar.source;
    }
  }
}

/// Allows everything, and says of one token that nothing else may come next.
class ForcingToken : public TokenConstraint {
 public:
  ForcingToken(int vocabulary, TokenId token)
      : all_(static_cast<std::size_t>(vocabulary) / 32 + 1, ~0U), token_(token) {}
  std::span<const std::uint32_t> allowed(const AnswerTokens&) override { return all_; }
  bool allows(const AnswerTokens&, TokenId) override { return true; }
  std::vector<TokenId> forced(const AnswerTokens&) override { return {token_}; }
  bool is_complete(const AnswerTokens&) override { return false; }

 private:
  std::vector<std::uint32_t> all_;
  TokenId token_;
};

struct ForcingSource : ConstraintSource {
  ForcingSource(int of, TokenId forced) : vocabulary(of), token(forced) {}
  std::unique_ptr<TokenConstraint> start(std::span<const TokenId>) const override {
    return std::make_unique<ForcingToken>(vocabulary, token);
  }
  int vocabulary;
  TokenId token;
};

TEST(ConstrainedAnswer, AForcedTokenThatTheModelLacksEndsNobodysAnswer) {
  Constrained test(only(kStory));
  Request free = test.request;
  free.constraint = nullptr;
  const std::vector<TokenId> expected = test.engine->run(free).tokens;
  const int vocabulary = test.model.vocabulary();
  for (const TokenId token : {vocabulary, -1}) {
    Request odd = free;
    odd.constraint = std::make_shared<ForcingSource>(vocabulary, token);
    for (const Answer& answer : test.engine->run(std::vector<Request>{odd, free})) {
      EXPECT_EQ(answer.error, "") << token;
      EXPECT_EQ(answer.tokens, expected) << token;
    }
  }
}

/// Answers as another does. Each question takes a sixth of what a round's drafts may ask.
class CostlyConstraint : public TokenConstraint {
 public:
  CostlyConstraint(std::unique_ptr<TokenConstraint> other, int& about_drafts)
      : other_(std::move(other)), about_drafts_(about_drafts) {}
  std::span<const std::uint32_t> allowed(const AnswerTokens& answer) override {
    note(answer);
    return other_->allowed(answer);
  }
  bool allows(const AnswerTokens& answer, TokenId token) override {
    note(answer);
    return other_->allows(answer, token);
  }
  std::vector<TokenId> forced(const AnswerTokens& answer) override {
    note(answer);
    return other_->forced(answer);
  }
  bool is_complete(const AnswerTokens& answer) override { return other_->is_complete(answer); }
  std::uint64_t work() const override { return work_; }

 private:
  void note(const AnswerTokens& answer) {
    work_ += RoundConstraint::kMostWork / 6 + 1;
    about_drafts_ += answer.path.empty() ? 0 : 1;
  }

  std::unique_ptr<TokenConstraint> other_;
  int& about_drafts_;
  std::uint64_t work_ = 0;
};

struct CostlySource : ConstraintSource {
  CostlySource(std::shared_ptr<const ConstraintSource> of, int& drafts)
      : other(std::move(of)), about_drafts(drafts) {}
  std::unique_ptr<TokenConstraint> start(std::span<const TokenId> end_tokens) const override {
    return std::make_unique<CostlyConstraint>(other->start(end_tokens), about_drafts);
  }
  std::shared_ptr<const ConstraintSource> other;
  int& about_drafts;
};

TEST(ConstrainedAnswer, DraftsAskABoundedAmountInEachRoundAndChangeNoText) {
  const GrammarText grammar{GrammarText::Kind::regex, "She was (very|not) [a-z ]{5,40}\\."};
  for (const double temperature : {0.0, 0.8}) {
    std::vector<TokenId> expected;
    for (const char* drafter : {"none", "suffix", "lookahead"}) {
      TestOptions options;
      options.policy = "fixed";
      Constrained test(grammar, drafter, options);
      int about_drafts = 0;
      test.request.constraint =
          std::make_shared<CostlySource>(test.request.constraint, about_drafts);
      test.request.sampler.temperature = temperature;
      const Answer answer = test.engine->run(test.request);
      EXPECT_EQ(answer.error, "") << drafter;
      const bool is_plain = std::string(drafter) == "none";
      if (is_plain) expected = answer.tokens;
      EXPECT_EQ(answer.tokens, expected) << drafter;
      EXPECT_EQ(about_drafts > 0, !is_plain) << drafter;
      EXPECT_LE(about_drafts, 6 * (answer.statistics.rounds + 1)) << drafter;
      EXPECT_EQ(test.engine->engine.statistics().dropped, 0) << drafter;
    }
  }
}

/// The grammar's own token for the end, asked for where the answer may not yet end.
TEST(ConstrainedAnswer, AGrammarThatNamesTheEndEndsItsOwnAnswerAlone) {
  for (const bool has_end : {true, false}) {
    Constrained test({GrammarText::Kind::lark, "start: \"a\" <talon-end> /[a-z]+/"});
    if (!has_end) test.request.end_tokens.clear();
    Request free = test.request;
    free.constraint = nullptr;
    const auto answers = test.engine->run(std::vector<Request>{test.request, free});
    EXPECT_EQ(answers[0].text, "a");
    EXPECT_EQ(answers[0].finish, has_end ? FinishReason::stop_token : FinishReason::failed);
    EXPECT_EQ(answers[1].error, "");
    EXPECT_EQ(answers[1].tokens.size(), 100u);
  }
}

TEST(ConstrainedAnswer, FailsAloneWhereNothingMayBeDrawn) {
  Constrained test(only("dog"));
  Request impossible = test.request, free = test.request;
  for (TokenId token = 0; token < test.model.vocabulary(); ++token) {
    if (test.tokenizer.bytes_of(token).starts_with("d")) {
      impossible.sampler.banned.push_back(token);
    }
  }
  free.constraint = nullptr;
  const auto answers = test.engine->run(std::vector<Request>{test.request, impossible, free});
  EXPECT_EQ(answers[0].text, "dog");
  EXPECT_EQ(answers[1].finish, FinishReason::failed);
  EXPECT_NE(answers[1].error.find("all banned"), std::string::npos) << answers[1].error;
  EXPECT_EQ(answers[2].finish, FinishReason::length);
}

TEST(ConstrainedAnswer, LogprobsAreThoseOfTheModelWithAndWithoutDrafts) {
  const GrammarText grammar{GrammarText::Kind::regex, "She was (very|not) [a-z ]{5,20}\\."};
  std::vector<std::vector<TokenLogprobs>> found;
  for (const char* drafter : {"none", "suffix", "ngram"}) {
    Constrained test(grammar, drafter);
    test.request.logprobs = 3;
    test.request.sampler.temperature = 0.8;
    test.engine->submit(test.request);
    auto& list = found.emplace_back();
    while (!test.engine->engine.idle()) {
      for (const Progress& progress : test.engine->engine.step()) {
        list.insert(list.end(), progress.logprobs.begin(), progress.logprobs.end());
      }
    }
  }
  ASSERT_GT(found[0].size(), 5U);
  for (const auto& list : found) {
    ASSERT_EQ(list.size(), found[0].size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      EXPECT_EQ(list[i].token, found[0][i].token);
      EXPECT_EQ(list[i].log_p, found[0][i].log_p);
      EXPECT_EQ(list[i].top, found[0][i].top);
    }
  }
}

}  // namespace
}  // namespace talon::test::constrained_answer_test
