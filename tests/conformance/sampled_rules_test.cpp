#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "core/philox.h"
#include "draft/registry.h"
#include "models.h"

namespace talon::test::sampled_rules_test {
namespace {

constexpr int kRuns = 4000;
// With random seeds a right rule would fail once in 10,000 runs.
constexpr double kNormalQuantile = 3.719;

/// Draws a small tree from a law that is far from the target's: mostly four tokens that stories use
/// often. If it lies, it tells the rule another.
class DrawingDrafter : public Drafter {
 public:
  explicit DrawingDrafter(bool lies) : lies_(lies) {}
  DrafterTraits traits() const override { return {.draws = true}; }
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens&) override {}
  void propose(std::span<DraftJob> jobs) override {
    for (DraftJob& job : jobs) {
      if (job.plan.nodes < 5 || job.plan.levels < 2) continue;
      const auto uniform = [&](int index) {
        return job.random->uniform(static_cast<std::uint64_t>(job.position), RandomUse::draft,
                                   static_cast<std::uint32_t>(index));
      };
      job.tree->draw_children(0, law(), 3, uniform);
      for (NodeId node = 1; node <= 2; ++node) {
        job.tree->draw_children(node, law(), 1,
                                [&](int) { return uniform(10 + static_cast<int>(node)); });
      }
      if (!lies_) continue;
      for (auto& drawn : job.tree->drawn) {
        for (auto& [token, p] : drawn.law.entries) p = token == kUsual ? 0.1 : 0.3;
      }
    }
  }

 private:
  static constexpr TokenId kUsual = 261;
  static Law<double> law() { return {{{kUsual, 0.5}, {262, 0.1}, {286, 0.3}, {298, 0.1}}}; }
  bool lies_;
};

using Counts = std::map<std::vector<TokenId>, double>;

TestModel& model() {
  static TestModel model(kStories260k, cpu_backend(1));
  return model;
}
std::unique_ptr<Drafter> of_model(const std::string& text) {
  return make_drafter(text, {.target = &model().model});
}

/// How often each text of three tokens comes out.
Counts count_texts(std::unique_ptr<Drafter> drafter, const std::string& rule, std::uint64_t seed) {
  TestOptions options;
  options.policy = "fixed";
  TestEngine engine(model(), std::move(drafter), options, 64, make_verifier(rule));
  Counts counts;
  for (int run = 0; run < kRuns; ++run) {
    Request request;
    request.prompt = {1, 403, 407, 261, 378, 432};
    request.max_new = 4;
    request.sampler = {.temperature = 3, .top_k = 4};
    request.seed = seed + static_cast<std::uint64_t>(run);
    ++counts[engine.run(request).tokens];
  }
  return counts;
}

/// The chi-square of two samples of equal size, as a standard normal number (Wilson and Hilferty).
/// Texts with few counts are taken together.
double difference(const Counts& a, const Counts& b) {
  std::map<std::vector<TokenId>, std::pair<double, double>> both;
  for (const auto& [text, count] : a) both[text].first = count;
  for (const auto& [text, count] : b) both[text].second = count;
  double chi_square = 0, rare_a = 0, rare_b = 0;
  int cells = 0;
  const auto add = [&](double x, double y) {
    chi_square += (x - y) * (x - y) / (x + y);
    ++cells;
  };
  for (const auto& [text, counts] : both) {
    if (counts.first + counts.second >= 20) {
      add(counts.first, counts.second);
    } else {
      rare_a += counts.first;
      rare_b += counts.second;
    }
  }
  if (rare_a + rare_b > 0) add(rare_a, rare_b);
  const double freedom = cells - 1;
  const double spread = 2 / (9 * freedom);
  return (std::cbrt(chi_square / freedom) - (1 - spread)) / std::sqrt(spread);
}

const Counts& plain_counts() {
  static const Counts counts = count_texts(make_drafter("none", {}), "follow", 1);
  return counts;
}

class SampledRules : public testing::TestWithParam<const char*> {};

TEST_P(SampledRules, GiveTheTargetsDistributionOnARealModel) {
  const Counts counts = count_texts(std::make_unique<DrawingDrafter>(false), GetParam(), 1'000'000);
  EXPECT_GT(counts.size(), 20U);
  EXPECT_LT(difference(plain_counts(), counts), kNormalQuantile);
}

/// Whose law is another than the target's: layers are left out.
TEST_P(SampledRules, GiveTheTargetsDistributionWithADraftModelThatDraws) {
  const Counts counts =
      count_texts(of_model("draft:model=self,skip=2/3,levels=3,draw=on"), GetParam(), 1'000'000);
  EXPECT_LT(difference(plain_counts(), counts), kNormalQuantile);
}

TEST_P(SampledRules, GiveTheTargetsDistributionWithAHeadWhoseTreeIsDrawn) {
  const std::string head = TALON_TEST_DATA "/golden/stories260k/eagle1_head";
  const Counts counts =
      count_texts(of_model("eagle:topk=2,levels=2,draw=on,head=" + head), GetParam(), 1'000'000);
  EXPECT_LT(difference(plain_counts(), counts), kNormalQuantile);
}

/// p = q: all drafts are accepted, as in the papers. Drafts that are not drawn are with p alone.
TEST_P(SampledRules, AcceptWhatIsDrawnFromTheTargetsOwnLaw) {
  const auto accepted = [&](const std::string& draw) {
    TestOptions options;
    options.policy = "fixed";
    TestEngine engine(model(), of_model("draft:model=self,weights=f32,levels=4,draw=" + draw),
                      options, 64, make_verifier(GetParam()));
    Request request;
    request.prompt = {1, 403, 407, 261, 378, 432};
    request.max_new = 120;
    request.sampler = {.temperature = 1};
    const auto counts = engine.run(request).statistics.accepted;
    return std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  };
  EXPECT_GT(accepted("on"), 3.8);
  EXPECT_LT(accepted("off"), 3.5);
}

TEST_P(SampledRules, AWrongLawOfTheDraftsIsNoticed) {
  const Counts counts = count_texts(std::make_unique<DrawingDrafter>(true), GetParam(), 1'000'000);
  EXPECT_GT(difference(plain_counts(), counts), kNormalQuantile);
}

INSTANTIATE_TEST_SUITE_P(All, SampledRules, testing::Values("token", "block", "traversal"),
                         [](const auto& of) { return std::string(of.param); });

/// Notes the tokens that its drafter drafts.
class NotingDrafter : public Drafter {
 public:
  struct Drafted {
    int answered = 0;  // tokens of the answer before it
    TokenId token = 0;
  };
  NotingDrafter(std::unique_ptr<Drafter> drafter, int prompt_length, std::vector<Drafted>& notes)
      : drafter_(std::move(drafter)), prompt_length_(prompt_length), notes_(notes) {}
  DrafterTraits traits() const override { return drafter_->traits(); }
  std::unique_ptr<DraftState> start() override { return drafter_->start(); }
  void observe(DraftState& state, const CommittedTokens& committed) override {
    drafter_->observe(state, committed);
  }
  void propose(std::span<DraftJob> jobs) override {
    drafter_->propose(jobs);
    for (const DraftJob& job : jobs) {
      for (NodeId node = 1; node < job.tree->size(); ++node) {
        const int place = job.position + job.tree->depth(node);
        notes_.push_back({place - prompt_length_, (*job.tree)[node].token});
      }
    }
  }

 private:
  std::unique_ptr<Drafter> drafter_;
  int prompt_length_;
  std::vector<Drafted>& notes_;
};

/// Else the end of an answer would never be drafted. Answers begin with the one token that is not
/// banned early.
TEST(DrawnDrafts, HaveTokensThatAreBannedEarlyOnceTheAnswerIsLongEnough) {
  constexpr TokenId kOnly = 5;
  constexpr int kLeast = 3;
  Request request;
  request.prompt = {1, 403, 407, 261, 378, 432};
  request.max_new = 12;
  request.sampler = {.temperature = 1};
  request.sampler.least_answer = kLeast;
  for (TokenId token = 0; token < model().vocabulary(); ++token)
    if (token != kOnly) request.sampler.banned_early.push_back(token);
  const std::string head = TALON_TEST_DATA "/golden/stories260k/eagle1_head";
  for (const std::string& text :
       std::vector<std::string>{"draft:model=self,weights=f32,levels=4,draw=on",
                                "eagle:topk=1,levels=4,draw=on,head=" + head}) {
    std::vector<NotingDrafter::Drafted> drafted;
    TestOptions options;
    options.policy = "fixed";
    auto drafter = std::make_unique<NotingDrafter>(
        of_model(text), static_cast<int>(request.prompt.size()), drafted);
    TestEngine engine(model(), std::move(drafter), options, 64, make_verifier("token"));
    for (request.seed = 1; request.seed <= 8; ++request.seed) engine.run(request);
    int others_at_once = 0;
    for (const auto& [answered, token] : drafted) {
      if (answered < kLeast) {
        EXPECT_EQ(token, kOnly) << text;
      } else if (answered == kLeast && token != kOnly) {
        ++others_at_once;
      }
    }
    EXPECT_GT(others_at_once, 0) << text;
  }
}

}  // namespace
}  // namespace talon::test::sampled_rules_test
