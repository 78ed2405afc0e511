#include "c/speculator/speculator.h"

#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "c/test_model.h"
#include "draft/coupling/coupling.h"
#include "runtime/answerer.h"
#include "runtime/cache_budget.h"
#include "runtime/loaded_model.h"
#include "sample/race.h"

namespace talon::speculator_test {
namespace {

constexpr int kVocabulary = 512;

/// Logits of the row after `text`, by a model that the speculator does not know.
std::vector<float> row_after(const ModelHandle& model, const std::vector<std::int32_t>& text) {
  std::vector<float> row(kVocabulary);
  EXPECT_EQ(talon_model_logits(model.get(), text.data(), text.size(), text.size() - 1, row.data(),
                               row.size()),
            TALON_OK)
      << talon_last_error();
  return row;
}

struct Spoken {
  std::vector<std::int32_t> tokens;
  int rounds = 0;
};

/// What a runtime does with the raw layer, one row of its model after the other.
Spoken speak(const ModelHandle& model, const char* method, const talon_request& request,
             const talon_model* of_head = nullptr) {
  talon_speculator_options options = talon_speculator_default();
  options.method = method;
  options.vocabulary = kVocabulary;
  options.model = of_head;
  talon_speculator* made = nullptr;
  EXPECT_EQ(talon_speculator_new(&options, &made), TALON_OK) << talon_last_error();
  const SpeculatorHandle speculator(made);
  talon_sequence* begun = nullptr;
  EXPECT_EQ(talon_sequence_new(speculator.get(), &request, &begun), TALON_OK) << talon_last_error();
  const SequenceHandle sequence(begun);
  std::vector<std::int32_t> text(request.prompt, request.prompt + request.prompt_count);
  Spoken spoken;
  while (static_cast<int>(spoken.tokens.size()) < request.max_new) {
    talon_tree tree = talon_tree_empty();
    EXPECT_EQ(talon_sequence_propose(sequence.get(), 8, 4, &tree), TALON_OK) << talon_last_error();
    std::vector<std::vector<std::int32_t>> paths;  // of each node
    std::vector<float> logits;
    for (std::size_t node = 0; node < tree.node_count; ++node) {
      paths.push_back(node == 0 ? text : paths[static_cast<std::size_t>(tree.parents[node])]);
      if (node > 0) paths.back().push_back(tree.tokens[node]);
      const auto row = row_after(model, paths.back());
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const std::vector<std::int32_t> tokens(tree.tokens, tree.tokens + tree.node_count);
    talon_verdict verdict = talon_verdict_empty();
    if (talon_sequence_verify(sequence.get(), logits.data(), kVocabulary, &verdict) != TALON_OK) {
      ADD_FAILURE() << talon_last_error();
      break;
    }
    for (std::size_t i = 1; i < verdict.path_count; ++i)
      spoken.tokens.push_back(tokens[static_cast<std::size_t>(verdict.path[i])]);
    spoken.tokens.push_back(verdict.next);
    text.assign(request.prompt, request.prompt + request.prompt_count);
    text.insert(text.end(), spoken.tokens.begin(), spoken.tokens.end());
    ++spoken.rounds;
  }
  spoken.tokens.resize(static_cast<std::size_t>(request.max_new));
  return spoken;
}

std::vector<TokenId> plain_answer(const talon_request& request) {
  const LoadedModel loaded = open_model({.model = test_model_path(), .threads = 1});
  const auto cache = open_cache(loaded.model);
  DecodeSettings settings;
  settings.drafter = "none";
  Answerer answerer(loaded.model, *cache, loaded.tokenizer_or_null(), settings);
  Request asked;
  asked.prompt.assign(request.prompt, request.prompt + request.prompt_count);
  asked.max_new = request.max_new;
  asked.sampler.temperature = request.temperature;
  asked.seed = request.seed;
  return answerer.decode(asked).tokens;
}

TEST(CSpeculation, AForeignRuntimeGetsItsOwnModelsTextInFewerRounds) {
  const ModelHandle model = load_test_model();
  const auto prompt = tokens_of(model, "Tim had a red ball. Tim had a red ball. Tim had");
  for (const double temperature : {0.0, 0.7}) {
    talon_request request = request_for(prompt, 20);
    request.temperature = temperature;
    request.seed = 5;
    const auto expected = plain_answer(request);
    for (const char* method : {"suffix", "ngram"}) {
      const Spoken spoken = speak(model, method, request);
      EXPECT_EQ(spoken.tokens, expected) << method << " at " << temperature;
      EXPECT_LT(spoken.rounds, 20) << method;
    }
  }
  EXPECT_EQ(speak(model, "none", request_for(prompt, 5)).rounds, 5);
}

TEST(CSpeculation, WhatIsMissingIsNamed) {
  const auto open = [](const char* method, int vocabulary) {
    talon_speculator_options options = talon_speculator_default();
    options.method = method;
    options.vocabulary = vocabulary;
    talon_speculator* speculator = nullptr;
    const talon_status status = talon_speculator_new(&options, &speculator);
    talon_speculator_free(speculator);
    return status;
  };
  const auto says = [](const char* words) {
    return std::string(talon_last_error()).find(words) != std::string::npos;
  };
  EXPECT_EQ(open("suffix@policy=fixed", 512), TALON_BAD_ARGUMENT);
  EXPECT_TRUE(says("policy")) << talon_last_error();
  for (const char* method : {"nosuch", "suffix@verify=nosuch", "suffix:nosuch=1", "suffix@hm=1"}) {
    EXPECT_EQ(open(method, 512), TALON_BAD_ARGUMENT) << method;
    EXPECT_TRUE(says("talon_speculator_new: options->method: ")) << talon_last_error();
  }
  for (const char* method : {"eagle3", "suffix+dflash:head=nowhere", "draft:model=self", "mtp"}) {
    EXPECT_EQ(open(method, 512), TALON_BAD_ARGUMENT) << method;
    EXPECT_TRUE(says("options->model: expected the model whose head")) << talon_last_error();
  }
  EXPECT_EQ(open("suffix", 0), TALON_BAD_ARGUMENT);
  EXPECT_EQ(open("suffix", 512), TALON_OK);
}

struct Note {
  talon_log_level level;
  std::string text;
};
void keep_note(void* user, talon_log_level level, const char* message) {
  static_cast<std::vector<Note>*>(user)->push_back({level, message});
}

TEST(CSpeculation, TheLogIsToldWhatDrafts) {
  std::vector<Note> notes;
  talon_speculator_options options = talon_speculator_default();
  options.vocabulary = 8;
  options.log = keep_note;
  options.log_user = &notes;
  talon_speculator* made = nullptr;
  ASSERT_EQ(talon_speculator_new(&options, &made), TALON_OK) << talon_last_error();
  const SpeculatorHandle speculator(made);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].level, TALON_LOG_INFO);
  EXPECT_EQ(notes[0].text, "drafter suffix");
}

/// A program that was built against a header whose options had no log.
TEST(CSpeculation, OptionsThatEndBeforeTheLogHaveNone) {
  std::vector<Note> notes;
  talon_speculator_options options = talon_speculator_default();
  options.vocabulary = 8;
  options.log = keep_note;
  options.log_user = &notes;
  options.size = offsetof(talon_speculator_options, log);
  talon_speculator* made = nullptr;
  ASSERT_EQ(talon_speculator_new(&options, &made), TALON_OK) << talon_last_error();
  const SpeculatorHandle speculator(made);
  EXPECT_TRUE(notes.empty());
}

TEST(CSpeculation, AWrongFieldOfARequestIsNamed) {
  talon_speculator_options options = talon_speculator_default();
  options.vocabulary = 8;
  talon_speculator* made = nullptr;
  ASSERT_EQ(talon_speculator_new(&options, &made), TALON_OK);
  const SpeculatorHandle speculator(made);
  const std::vector<std::int32_t> prompt = {1, 2};
  talon_request request = request_for(prompt, 1);
  request.top_p = 2;
  talon_sequence* begun = nullptr;
  EXPECT_EQ(talon_sequence_new(made, &request, &begun), TALON_BAD_ARGUMENT);
  const std::string message = talon_last_error();
  EXPECT_TRUE(message.starts_with("talon_sequence_new: request->top_p: ")) << message;
}

TEST(CSpeculation, StepsOutOfOrderAreRefused) {
  talon_speculator_options options = talon_speculator_default();
  options.vocabulary = 8;
  talon_speculator* made = nullptr;
  ASSERT_EQ(talon_speculator_new(&options, &made), TALON_OK);
  const SpeculatorHandle speculator(made);
  EXPECT_EQ(talon_speculator_feature_width(made), 0);
  std::vector<std::int32_t> prompt = {1, 2, 9};
  talon_request request = request_for(prompt, 1);
  talon_sequence* begun = nullptr;
  EXPECT_EQ(talon_sequence_new(made, &request, &begun), TALON_BAD_ARGUMENT);  // no token 9
  prompt[2] = 3;
  ASSERT_EQ(talon_sequence_new(made, &request, &begun), TALON_OK);
  const SequenceHandle sequence(begun);
  std::vector<float> logits(8 * 8, 0.0F);
  talon_verdict verdict = talon_verdict_empty();
  EXPECT_EQ(talon_sequence_verify(begun, logits.data(), 8, &verdict), TALON_BAD_ARGUMENT);
  talon_tree tree = talon_tree_empty();
  EXPECT_EQ(talon_sequence_propose(begun, -1, 1, &tree), TALON_BAD_ARGUMENT);
  EXPECT_EQ(talon_sequence_propose(begun, 4, 4, &tree), TALON_OK);
  EXPECT_EQ(talon_sequence_observe(begun, logits.data(), 1), TALON_BAD_ARGUMENT);
  EXPECT_EQ(talon_sequence_verify(begun, logits.data(), 7, &verdict), TALON_BAD_ARGUMENT);
  logits[3] = NAN;
  EXPECT_EQ(talon_sequence_verify(begun, logits.data(), 8, &verdict), TALON_FAILED);
  logits[3] = 1;
  EXPECT_EQ(talon_sequence_verify(begun, logits.data(), 8, &verdict), TALON_OK);
  EXPECT_EQ(verdict.next, 3);
}

/// Drafts four tokens after the root, then throws where it was told to.
class FragileDrafter : public Drafter {
 public:
  DrafterTraits traits() const override { return {.sees_draws = true}; }
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens&) override {
    if (throws_at_text) throw std::runtime_error("no more texts");
  }
  void saw(DraftState&, const DraftTree&, const TokenAfter&) override {
    if (throws_at_draws) throw std::runtime_error("no more draws");
  }
  void propose(std::span<DraftJob> jobs) override {
    for (TokenId token = 0; token < 4; ++token) jobs.front().tree->add(0, token, -1.0F);
    if (throws_at_trees) throw std::runtime_error("no more guesses");
  }
  bool throws_at_text = false, throws_at_draws = false, throws_at_trees = false;
};

/// Accepts nothing, each time at the same distortion.
class DistortingRule : public Verifier {
 public:
  std::string_view name() const override { return "distorting"; }
  bool lossless() const override { return false; }
  VerifyResult verify(const VerifyInput& input) const override {
    distortions.push_back(input.distortion);
    return {.path = {0}, .next = 5, .distortion = 0.5};
  }
  mutable std::vector<double> distortions;  // of the answer before each verdict
};

struct FragileSpeculation {
  FragileSpeculation() {
    auto of_drafter = std::make_unique<FragileDrafter>();
    auto of_rule = std::make_unique<DistortingRule>();
    drafter = of_drafter.get();
    rule = of_rule.get();
    speculator->vocabulary = 8;
    speculator->traits = of_drafter->traits();
    speculator->drafter = std::move(of_drafter);
    speculator->rule = std::move(of_rule);
    sequence = std::make_unique<talon_sequence>(speculator, request_for(prompt, 1));
  }
  static void hear(void* user, talon_log_level level, const char* message) {
    auto& test = *static_cast<FragileSpeculation*>(user);
    EXPECT_EQ(level, TALON_LOG_WARNING);
    EXPECT_FALSE(test.speculator->turns().is_mine()) << "what the callback calls would be refused";
    test.warnings.emplace_back(message);
  }
  talon_status propose() { return talon_sequence_propose(sequence.get(), 4, 2, &tree); }
  talon_status verify() {
    return talon_sequence_verify(sequence.get(), logits.data(), 8, &verdict);
  }

  std::shared_ptr<Speculator> speculator = std::make_shared<Speculator>();
  FragileDrafter* drafter = nullptr;
  DistortingRule* rule = nullptr;
  std::vector<std::int32_t> prompt = {1, 2, 3};
  std::unique_ptr<talon_sequence> sequence;
  std::vector<float> logits = std::vector<float>(5UL * 8, 0.0F);
  talon_tree tree = talon_tree_empty();
  talon_verdict verdict = talon_verdict_empty();
  std::vector<std::string> warnings;  // that the log was told
};

TEST(CSpeculation, ATreeThatWasNeverShownGetsNoVerdict) {
  FragileSpeculation test;
  ASSERT_EQ(test.propose(), TALON_OK);
  EXPECT_EQ(test.tree.node_count, 5U);
  test.drafter->throws_at_trees = true;
  EXPECT_EQ(test.propose(), TALON_FAILED);
  EXPECT_EQ(test.verify(), TALON_BAD_ARGUMENT);
  EXPECT_TRUE(test.rule->distortions.empty());
  test.drafter->throws_at_trees = false;
  EXPECT_EQ(test.propose(), TALON_OK);
  EXPECT_EQ(test.verify(), TALON_OK);
}

TEST(CSpeculation, AVerdictStandsWhereTheDrafterFailsAndNothingIsDraftedAfterIt) {
  for (bool FragileDrafter::*throws :
       {&FragileDrafter::throws_at_draws, &FragileDrafter::throws_at_text}) {
    FragileSpeculation test;
    test.speculator->log = {FragileSpeculation::hear, &test};
    test.drafter->*throws = true;
    for (std::size_t round = 0; round < 3; ++round) {
      ASSERT_EQ(test.propose(), TALON_OK);
      EXPECT_EQ(test.tree.node_count, round == 0 ? 5U : 1U);
      EXPECT_EQ(test.tree.tokens[0], round == 0 ? 3 : 5);
      ASSERT_EQ(test.verify(), TALON_OK) << talon_last_error();
      EXPECT_EQ(test.verdict.next, 5);
    }
    EXPECT_EQ(test.rule->distortions, (std::vector<double>{0, 0.5, 1}));
    ASSERT_EQ(test.warnings.size(), 1U);
    EXPECT_NE(test.warnings[0].find("goes on without drafts: no more "), std::string::npos)
        << test.warnings[0];
  }
}

/// Of rows in which all tokens are alike it drafts the winners of the races to come, between those
/// that the request does not ban.
class ForeseeingDrafter : public Drafter {
 public:
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens&) override {}
  void propose(std::span<DraftJob> jobs) override {
    const DraftJob& job = jobs.front();
    const DraftPlace first = first_place(job, {});
    NodeId node = 0;
    for (int level = 0; level < job.plan.levels && first.races(); ++level) {
      const DraftPlace place = first.after(level);
      std::vector<float> alike(8, 0.0F);
      for (TokenId token = 0; token < 8; ++token) {
        if (place.bans(token)) alike[static_cast<std::size_t>(token)] = -100;
      }
      const RaceNoise noise(*place.random, place.position);
      node = job.tree->add(node, draw_by_race(alike, {noise, place.temperature}), -1.0F);
    }
  }
};

/// Noise of another place would change no text.
TEST(CSpeculation, DraftersForeseeTheDrawsOfTheirPlaces) {
  const auto speculator = std::make_shared<Speculator>();
  speculator->vocabulary = 8;
  speculator->drafter = std::make_unique<ForeseeingDrafter>();
  speculator->rule = make_verifier("follow");
  const std::vector<std::int32_t> prompt = {1, 2, 3};
  talon_request request = request_for(prompt, 40);
  const std::vector<std::int32_t> banned = {2, 4, 5, 7};
  request.banned = banned.data();
  request.banned_count = banned.size();
  request.temperature = 1;
  request.seed = 5;
  talon_sequence sequence(speculator, request);
  const std::vector<float> logits(5UL * 8, 0.0F);
  for (int round = 0; round < 6; ++round) {
    talon_tree tree = talon_tree_empty();
    ASSERT_EQ(talon_sequence_propose(&sequence, 8, 4, &tree), TALON_OK) << talon_last_error();
    ASSERT_EQ(tree.node_count, 5U);
    talon_verdict verdict = talon_verdict_empty();
    ASSERT_EQ(talon_sequence_verify(&sequence, logits.data(), 8, &verdict), TALON_OK)
        << talon_last_error();
    EXPECT_EQ(verdict.path_count, 5U) << round;
  }
}

/// Drafts nothing, and keeps the penalties that it was told.
class PenaltyReader : public Drafter {
 public:
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens&) override {}
  void propose(std::span<DraftJob> jobs) override { told = jobs.front().penalties->all(); }
  std::vector<TextPenalties::Seen> told;
};

TEST(CSpeculation, DraftersAreToldThePenaltiesOfTheText) {
  const auto speculator = std::make_shared<Speculator>();
  auto drafter = std::make_unique<PenaltyReader>();
  PenaltyReader& reader = *drafter;
  speculator->vocabulary = 8;
  speculator->drafter = std::move(drafter);
  speculator->rule = make_verifier("follow");
  const std::vector<std::int32_t> prompt = {1, 2, 3};
  talon_request request = request_for(prompt, 40);
  request.temperature = 0;
  request.presence_penalty = 0.5;
  talon_sequence sequence(speculator, request);
  std::vector<float> logits(8, 0.0F);
  logits[6] = 1;
  talon_tree tree = talon_tree_empty();
  talon_verdict verdict = talon_verdict_empty();
  ASSERT_EQ(talon_sequence_propose(&sequence, 8, 4, &tree), TALON_OK) << talon_last_error();
  EXPECT_TRUE(reader.told.empty()) << "of an answer without a token";
  ASSERT_EQ(talon_sequence_verify(&sequence, logits.data(), 8, &verdict), TALON_OK);
  ASSERT_EQ(talon_sequence_propose(&sequence, 8, 4, &tree), TALON_OK) << talon_last_error();
  EXPECT_EQ(reader.told, (std::vector<TextPenalties::Seen>{{6, 0.5, false}}));
}

TEST(CSpeculation, BeyondTheContextOfItsModelAHeadDraftsNothing) {
  constexpr std::size_t kContext = 64;
  talon_model_options of_model = talon_model_default();
  of_model.context = kContext;
  const ModelHandle model = load_test_model(of_model);
  talon_speculator_options options = talon_speculator_default();
  options.method = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head";
  options.model = model.get();
  talon_speculator* made = nullptr;
  ASSERT_EQ(talon_speculator_new(&options, &made), TALON_OK) << talon_last_error();
  const SpeculatorHandle speculator(made);
  std::size_t length = kContext - 20;
  const std::vector<std::int32_t> prompt(length, 403);
  const talon_request request = request_for(prompt, 1);
  talon_sequence* begun = nullptr;
  ASSERT_EQ(talon_sequence_new(made, &request, &begun), TALON_OK) << talon_last_error();
  const SequenceHandle sequence(begun);
  const auto width = static_cast<std::size_t>(talon_speculator_feature_width(made));
  const std::vector<float> features(kContext * width, 0.5F);
  std::vector<float> logits(16UL * kVocabulary, 0.0F);
  for (std::size_t node = 0; node < 16; ++node) logits[node * kVocabulary + 403] = 1;
  ASSERT_EQ(talon_sequence_observe(begun, features.data(), length - 1), TALON_OK);
  bool drafted = false;
  while (length < kContext + 20) {
    talon_tree tree = talon_tree_empty();
    ASSERT_EQ(talon_sequence_propose(begun, 8, 4, &tree), TALON_OK) << talon_last_error();
    drafted = drafted || tree.node_count > 1;
    if (length >= kContext) {
      EXPECT_EQ(tree.node_count, 1U) << length;
    }
    talon_verdict verdict = talon_verdict_empty();
    ASSERT_EQ(talon_sequence_verify(begun, logits.data(), kVocabulary, &verdict), TALON_OK);
    length += verdict.path_count;
    ASSERT_EQ(talon_sequence_observe(begun, features.data(), verdict.path_count), TALON_OK)
        << length << ": " << talon_last_error();
  }
  EXPECT_TRUE(drafted);
}

}  // namespace
}  // namespace talon::speculator_test
