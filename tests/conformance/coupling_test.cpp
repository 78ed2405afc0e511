#include <gtest/gtest.h>

#include "draft/coupling/noise_rows.h"
#include "draft/registry.h"
#include "io/test_files.h"
#include "model/target.h"
#include "models.h"
#include "random_heads.h"

// Drafts that know the noise of the draws. That answers stay the same is the exactness test's
// matter; a draft that looks at the wrong position or the wrong token's noise changes no answer, so
// how many tokens a check brings is tested here.

namespace talon::test::coupling_test {
namespace {

Request asking(double temperature, std::uint64_t seed, int max_new = 40) {
  Request request;
  request.prompt = {1, 403, 407, 261, 378, 432};
  request.max_new = max_new;
  request.sampler.temperature = temperature;
  request.seed = seed;
  request.reuse_prefix = false;
  return request;
}

/// Drafts a chain by running the target itself over the text and the draft so far.
class SelfDrafter : public Drafter {
 public:
  explicit SelfDrafter(const Model& model, int levels)
      : levels_(levels),
        backend_(*model.backend),
        vocabulary_(model.config.vocabulary),
        cache_(backend_, kv_shape(model.config, 8)),
        target_(model, cache_, 128),
        noise_(backend_, vocabulary_, {}, 16) {}

  std::unique_ptr<DraftState> start() override { return std::make_unique<State>(); }
  void observe(DraftState& state, const CommittedTokens& committed) override {
    auto& tokens = static_cast<State&>(state).tokens;
    tokens.insert(tokens.end(), committed.tokens.begin(), committed.tokens.end());
  }
  void propose(std::span<DraftJob> jobs) override {
    for (DraftJob& job : jobs) {
      std::vector<TokenId> text = static_cast<State&>(*job.state).tokens;
      DraftPlace place = first_place(job, {});
      NodeId node = 0;
      for (int level = 0; level < std::min(levels_, job.plan.levels); ++level) {
        text.push_back(best_after(text, place));
        node = job.tree->add(node, text.back(), 0.0F);
        place = place.after(1);
      }
    }
  }

 private:
  struct State : DraftState {
    std::vector<TokenId> tokens;
  };

  TokenId best_after(const std::vector<TokenId>& text, const DraftPlace& place) {
    KvSequence sequence = cache_.start({}, false);
    EXPECT_TRUE(sequence.reserve(static_cast<int>(text.size())));
    SequenceRows rows{.sequence = &sequence, .tokens = text, .parents = {}};
    rows.logits = SequenceRows::Logits::last;
    const ForwardResult result = target_.forward({&rows, 1});
    const View logits = result.logits.row_range(result.first_logits_row[0], 1);
    std::vector<float> row(static_cast<std::size_t>(vocabulary_)), noise(row.size());
    backend_.download(logits, row);
    if (place.races()) {
      const int at = noise_.row_of(place, {.beta = 1});
      backend_.download(noise_.view().row_range(at, 1), noise);
    }
    for (std::size_t i = 0; i < row.size(); ++i) row[i] += noise[i];
    return static_cast<TokenId>(std::ranges::max_element(row) - row.begin());
  }

  int levels_;
  Backend& backend_;
  int vocabulary_;
  KvCache cache_;
  Target target_;
  NoiseRows noise_;
};

TEST(Coupling, ADraftThatIsTheTargetItselfIsRightToItsEndAtEveryTemperature) {
  TestModel model(kStories260k, reference_backend(1));
  TestOptions options;
  options.policy = "fixed";
  for (const double temperature : {0.0, 0.3, 0.7, 1.0, 1.5}) {
    TestEngine engine(model, std::make_unique<SelfDrafter>(model.model, 3), options);
    Request request = asking(temperature, 5, 41);
    request.choice = 2;  // which has noise of its own
    const Answer answer = engine.run(request);
    EXPECT_EQ(answer.tokens.size(), 41U);
    // 40 tokens in tens of a root and three drafts. Noise is rough in drafts: one may fail.
    EXPECT_LE(answer.statistics.rounds, 11) << temperature;
  }
}

/// Tokens a check with these drafts, over some seeds.
double tau_of(TestModel& model, std::unique_ptr<Drafter> drafter, const SamplerOptions& sampler,
              const std::string& rule, std::uint64_t seeds) {
  TestOptions options;
  options.policy = "fixed";
  TestEngine engine(model, std::move(drafter), options, 64, make_verifier(rule));
  double tokens = 0, rounds = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    Request request = asking(0, seed);
    request.sampler = sampler;
    const Answer answer = engine.run(request);
    EXPECT_EQ(answer.error, "");
    tokens += static_cast<double>(answer.tokens.size()) - 1;
    rounds += answer.statistics.rounds;
  }
  return tokens / rounds;
}

/// With drafts as `text` says.
double tau_of(TestModel& model, const std::string& text, const SamplerOptions& sampler,
              const std::string& rule = "follow", std::uint64_t seeds = 6) {
  return tau_of(model, make_drafter(text, {.target = &model.model}), sampler, rule, seeds);
}

double tau_of(TestModel& model, const std::string& text, double temperature,
              const std::string& rule = "follow") {
  return tau_of(model, text, SamplerOptions{.temperature = temperature}, rule);
}

TEST(Coupling, ADraftModelThatIsTheTargetIsRightToItsEndAtEveryTemperature) {
  TestModel model(kStories260k, reference_backend(1));
  for (const double temperature : {0.0, 0.7, 1.5}) {
    for (const char* shape : {"levels=3", "topk=2,levels=3,nodes=14"}) {
      const std::string text = fmt::format("draft:model=self,gamma=1,{}", shape);
      EXPECT_GT(tau_of(model, text, temperature), 3.7) << text << " at " << temperature;
    }
  }
}

/// Bans of what it would have said and a bias change what is drawn, and so what is to be drafted.
TEST(Coupling, ADraftModelThatIsTheTargetKnowsTheBansAndTheBiasOfTheRequest) {
  TestModel model(kStories260k, reference_backend(1));
  TestEngine plain(model, make_drafter("none", {}));
  const std::vector<TokenId> said = plain.run(asking(0, 1)).tokens;
  ASSERT_GE(said.size(), 8U);
  SamplerOptions banning, biased;
  for (std::size_t i = 1; i < 6; ++i) {  // the first stays, so that the next would be drafted
    if (said[i] != said[0]) banning.banned.push_back(said[i]);
  }
  ASSERT_FALSE(banning.banned.empty());
  biased.logit_bias = {{said[0], -3.0F}, {said[7], 3.0F}};
  for (SamplerOptions sampler : {banning, biased}) {
    for (const double temperature : {0.0, 0.7}) {
      sampler.temperature = temperature;
      for (const char* shape : {"levels=3", "topk=2,levels=3,nodes=14"}) {
        const std::string text = fmt::format("draft:model=self,gamma=1,{}", shape);
        EXPECT_GT(tau_of(model, text, sampler), 3.7) << text << " at " << temperature;
      }
    }
  }
}

/// Of the text's tokens, those of the draft itself left out. SelfDrafter is the same target, which
/// is told of none.
TEST(Coupling, ADraftModelThatIsTheTargetKnowsThePenaltiesOfTheText) {
  TestModel model(kStories260k, cpu_backend(1));
  constexpr std::uint64_t kSeeds = 2;
  for (SamplerOptions sampler :
       {SamplerOptions{.presence_penalty = 4}, SamplerOptions{.frequency_penalty = 3},
        SamplerOptions{.repetition_penalty = 2}}) {
    for (const double temperature : {0.0, 0.7}) {
      sampler.temperature = temperature;
      const double told =
          tau_of(model, "draft:model=self,gamma=1,levels=3", sampler, "follow", kSeeds);
      const double untold =
          tau_of(model, std::make_unique<SelfDrafter>(model.model, 3), sampler, "follow", kSeeds);
      EXPECT_GT(told, 1.15 * untold)
          << "presence " << sampler.presence_penalty << " frequency " << sampler.frequency_penalty
          << " repetition " << sampler.repetition_penalty << " at " << temperature;
    }
  }
}

TEST(Coupling, AStageChangesNoDraft) {
  TestModel model(kStories260k, reference_backend(1));
  // Without its last layer the model is right now and then; short answers repeat what was said.
  for (const double temperature : {0.0, 0.7}) {
    const std::string plain = "draft:model=self,skip=4,levels=5";
    const double tau = tau_of(model, plain, temperature);
    EXPECT_GT(tau, 1.2);
    for (const char* stage : {"suffix", "ngram"}) {
      EXPECT_EQ(tau_of(model, fmt::format("{},stage={}", plain, stage), temperature), tau) << stage;
    }
  }
}

/// A draft model in four bits is wrong now and then, and the heads, which were trained for the
/// model as it is, guess what it drafts.
TEST(Coupling, AHeadAsAStageChangesNoDraft) {
  TestModel model(kStories260k, cpu_backend(1));
  const std::pair<const char*, const char*> stages[] = {
      {"eagle2", TALON_TEST_DATA "/golden/stories260k/eagle1_head"},
      {"eagle3", TALON_TEST_DATA "/golden/stories260k/eagle3_head"},
      {"dflash", TALON_TEST_DATA "/golden/blocks/dflash/head"},
      {"dspark", TALON_TEST_DATA "/golden/blocks/dspark/head"},
      {"peagle", TALON_TEST_DATA "/golden/blocks/peagle/head"}};
  for (const double temperature : {0.0, 0.7}) {
    const std::string plain = "draft:model=self,weights=int4,levels=5";
    const double tau = tau_of(model, plain, temperature);
    EXPECT_GT(tau, 1.2);
    for (const auto& [stage, head] : stages) {
      const std::string staged = fmt::format("{},stage={},stage_head={}", plain, stage, head);
      EXPECT_EQ(tau_of(model, staged, temperature), tau) << stage << " at " << temperature;
    }
  }
}

class CoupledHeads : public testing::Test {
 protected:
  /// `nodes` small, so that ranks matter.
  static std::vector<std::string> drafters(const std::filesystem::path& folder) {
    std::vector<std::string> texts;
    for (const char* drafter :
         {"eagle", "eagle2", "eagle3", "medusa", "dflash", "dspark", "peagle"}) {
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string text =
            fmt::format("{}:nodes=4,topk=3,head={}", drafter, entry.path().string());
        try {
          make_drafter(text, {.target = &model().model});
          texts.push_back(text);
        } catch (const Error&) {  // another kind's
        }
      }
    }
    return texts;
  }
  static TestModel& model() {
    static TestModel shared(kStories260k, cpu_backend(1));
    return shared;
  }
};

TEST_F(CoupledHeads, AreRightMoreOftenWithTheNoiseOfTheirPlaces) {
  const TemporaryFolder folder;
  // Of the EAGLE-3 head a draft list of every other token: noise belongs to the target's ids.
  write_random_heads(folder.path(), model().model.config, 256, MarkovKind::gated);
  const auto texts = drafters(folder.path());
  EXPECT_EQ(texts.size(), 7U);
  for (const std::string& text : texts) {
    // Heads that know nothing guess by the noise alone, which where the law is flat is right far
    // more often than anything else.
    const double with = tau_of(model(), text + ",beta=0.01,coupled=on", 4.0);
    const double without = tau_of(model(), text + ",coupled=off", 4.0);
    EXPECT_GT(with, without + 0.15) << text;
  }
}

TEST_F(CoupledHeads, ThatAreTrainedAreRightMoreOften) {
  for (const std::string text :
       {"eagle2:nodes=2,head=" TALON_TEST_DATA "/golden/stories260k/eagle1_head",
        "eagle3:nodes=2,head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head",
        "dflash:nodes=2,head=" TALON_TEST_DATA "/golden/blocks/dflash/head",
        "dspark:nodes=2,head=" TALON_TEST_DATA "/golden/blocks/dspark/head",
        "peagle:nodes=2,head=" TALON_TEST_DATA "/golden/blocks/peagle/head"}) {
    const double with = tau_of(model(), text + ",coupled=on", 1.5);
    const double without = tau_of(model(), text + ",coupled=off", 1.5);
    EXPECT_GT(with, 1.1 * without) << text;
  }
}

/// Most of the noise is of tokens that the cuts keep from being drawn.
TEST_F(CoupledHeads, ThatAreTrainedLookAtTheFewThatCutsLeaveAlone) {
  for (const std::string text :
       {"eagle2:nodes=2,head=" TALON_TEST_DATA "/golden/stories260k/eagle1_head",
        "eagle3:nodes=2,head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head",
        "dspark:nodes=2,head=" TALON_TEST_DATA "/golden/blocks/dspark/head"}) {
    for (SamplerOptions sampler : {SamplerOptions{.top_k = 2}, SamplerOptions{.top_k = 8},
                                   SamplerOptions{.top_p = 0.5}, SamplerOptions{.min_p = 0.3}}) {
      sampler.temperature = 1.5;
      const double with = tau_of(model(), text + ",coupled=on", sampler, "follow", 24);
      const double without = tau_of(model(), text + ",coupled=off", sampler, "follow", 24);
      EXPECT_GT(with, 0.98 * without) << text << " top-k " << sampler.top_k << " top-p "
                                      << sampler.top_p << " min-p " << sampler.min_p;
    }
  }
}

TEST_F(CoupledHeads, DraftTheSameAtTemperatureZeroAndForRulesThatMayNotKnowNoise) {
  const TemporaryFolder folder;
  write_random_heads(folder.path(), model().model.config, 0, MarkovKind::rnn);
  std::vector<std::string> texts = drafters(folder.path());
  texts.emplace_back("draft:model=self,skip=4,topk=2,levels=3,nodes=4");
  for (const std::string& text : texts) {
    EXPECT_EQ(tau_of(model(), text + ",coupled=on", 0.0),
              tau_of(model(), text + ",coupled=off", 0.0));
    for (const char* rule : {"token", "block", "traversal", "typical", "epsilon"}) {
      EXPECT_EQ(tau_of(model(), text + ",coupled=on", 2.0, rule),
                tau_of(model(), text + ",coupled=off", 2.0, rule))
          << text << ", " << rule;
    }
  }
}

}  // namespace
}  // namespace talon::test::coupling_test
