#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "io/quote.h"
#include "tree/policies/length_predictor.h"
#include "tree/policies/policies.h"
#include "tree/policies/tree_limits.h"

namespace talon {
namespace {

constexpr double kRateMemory = 0.95;  // weight of the past in the running tokens per millisecond

struct AdaEagleOptions {
  TreeLimits limits;
  bool hybrid;
  double threshold;
  double least;  // 0: from the costs
};

/// AdaEAGLE, arXiv:2412.18910: a predictor reads the target's state and says before the round how
/// many levels to draft; none means plain decoding. hybrid: a draft goes on while it is shorter
/// than predicted or its probability is at least `threshold`. An ordinal predictor drafts while the
/// chance that a level is accepted is at least `least`; by default what one pass costs at the
/// current speed, which is the best quantile (docs/methods.md 6.3).
class AdaEagleState : public PolicyState {
 public:
  AdaEagleState(const AdaEagleOptions& options, const LengthPredictor& predictor,
                const DrafterEstimates& drafter, const MachineCosts& machine)
      : options_(options), predictor_(predictor), drafter_(drafter), machine_(machine) {}

  TreePlan plan(const PlanContext& context) override {
    level_ = 0;
    TreePlan plan = options_.limits.within(context);
    if (context.feature.empty()) return plan;
    predicted_ = predicted_length(context.feature);
    const bool none = predicted_ == 0 && !options_.hybrid;
    if (none) return {};
    if (options_.hybrid) return plan;
    plan.levels = std::min(plan.levels, predicted_);
    plan.ask_after = TreeLevels::none();
    return plan;
  }

  int expand(std::span<const float> path_log_p) override {
    ++level_;
    const bool is_short = level_ < predicted_;
    const bool is_sure = options_.hybrid && log_sum_exp(path_log_p) >= options_.threshold;
    return is_short || is_sure ? static_cast<int>(path_log_p.size()) : 0;
  }

  void learn(const RoundOutcome& outcome) override {
    rate_tokens_ = kRateMemory * rate_tokens_ + outcome.batch_tokens;
    rate_ms_ = kRateMemory * rate_ms_ + outcome.check_ms + outcome.draft_ms;
  }

 private:
  int predicted_length(std::span<const float> feature) {
    const auto result = predictor_.predict(feature, scratch_);
    if (predictor_.kind() == LengthPredictor::Kind::asymmetric) {
      const float length = std::isfinite(result[0]) ? std::round(result[0]) : 0;
      return std::clamp(static_cast<int>(std::clamp(length, 0.0F, 1000.0F)), 0, predictor_.most());
    }
    const double least = options_.least > 0 ? options_.least : price_of_level();
    int length = 0;
    for (const float chance : result) length += static_cast<double>(chance) >= least ? 1 : 0;
    return length;
  }

  double price_of_level() const {
    const double rate = rate_ms_ > 0 ? rate_tokens_ / rate_ms_ : 1 / machine_.check_ms(1);
    const double row_ms = machine_.check_ms(4) - machine_.check_ms(3);
    return rate * (drafter_.passes.pass_ms(options_.limits.topk, machine_) + row_ms);
  }

  const AdaEagleOptions& options_;
  const LengthPredictor& predictor_;
  const DrafterEstimates& drafter_;
  const MachineCosts& machine_;
  LengthPredictor::Scratch scratch_;
  int predicted_ = 1 << 20;
  int level_ = 0;
  double rate_tokens_ = 0, rate_ms_ = 0;
};

class AdaEaglePolicy : public TreePolicy {
 public:
  AdaEaglePolicy(const AdaEagleOptions& options, LengthPredictor predictor)
      : options_(options), predictor_(std::move(predictor)) {}

  std::vector<FeatureTap> taps() const override { return {{0}, {FeatureTap::kFinalNorm}}; }
  Traits traits() const override { return {.uses_costs = true}; }
  std::unique_ptr<PolicyState> start(DrafterEstimates& drafter,
                                     const MachineCosts& machine) const override {
    return std::make_unique<AdaEagleState>(options_, predictor_, drafter, machine);
  }

 private:
  AdaEagleOptions options_;
  LengthPredictor predictor_;
};

LengthPredictor read_predictor(const std::string& path, int hidden) {
  LengthPredictor predictor(open_checkpoint(path));
  if (hidden > 0 && predictor.inputs() != 2 * hidden) {
    fail("ada_eagle: predictor {}: expected {} inputs, twice the model's hidden size, found {}",
         quote(path), 2 * hidden, predictor.inputs());
  }
  return predictor;
}

std::unique_ptr<TreePolicy> make_ada_eagle(Options& options, const PolicyContext& context) {
  const AdaEagleOptions parsed{read_limits(options), options.whole("hybrid") == 1,
                               options.real("threshold"), options.real("least")};
  return std::make_unique<AdaEaglePolicy>(
      parsed, read_predictor(options.text("predictor"), context.hidden));
}

}  // namespace

PolicyEntry ada_eagle_policy() {
  return {.name = "ada_eagle",
          .summary =
              "AdaEAGLE (arXiv:2412.18910): a predictor says how deep to draft, from the "
              "target's state",
          .options = joined(
              {{"predictor", FreeText{"PATH"}, "", "what talon train policy made for the model",
                /*required=*/true},
               {"hybrid", WholeNumber{0, 1}, "0", "1: go on while the draft is likely, too"},
               {"threshold", RealNumber{-100, 0}, "-0.6", "how likely, as a logarithm"},
               {"least", RealNumber{0, 1}, "0",
                "chance that a level must have (ordinal predictors; 0: from the costs)"}},
              limit_options({1, 8, 59})),
          .make = make_ada_eagle};
}

}  // namespace talon
