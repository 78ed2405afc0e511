#include "train/head/head_options.h"

#include <algorithm>

#include "backend/weight_layout.h"
#include "core/error.h"
#include "train/head/head_loss.h"
#include "train/head/head_model.h"
#include "train/head/math/optimizer.h"
#include "train/head/target/target_weights.h"

namespace talon {
namespace {

/// As drafters of such heads weigh the noise unless told otherwise (their options beta and gamma).
CouplingWeights coupling_of(HeadKind kind) {
  CouplingWeights weights;
  if (kind == HeadKind::draft) weights.gain = 1;
  return weights;
}

}  // namespace

void check_options(const HeadTrainOptions& options, const ModelConfig& target) {
  if (options.rank >= options.ranks) {
    throw UsageError(
        fmt::format("--rank: expected less than --ranks, {}, got {}", options.ranks, options.rank));
  }
  const char* several = "several processes (--ranks) must agree on the end: use --epochs";
  if (options.ranks > 1 && options.minutes > 0)
    throw UsageError(fmt::format("--minutes: {}", several));
  if (options.ranks > 1 && options.patience > 0)
    throw UsageError(fmt::format("--patience: {}", several));
  if (options.intermediate > neurons_of(target)) {
    throw UsageError(fmt::format("--intermediate: expected at most the target's {}, got {}",
                                 neurons_of(target), options.intermediate));
  }
  if (has_layers(head_kind_of(options.kind)) && options.layers > target.layers) {
    throw UsageError(fmt::format("--layers: expected at most the target's {}, got {}",
                                 target.layers, options.layers));
  }
}

void settle(HeadTrainOptions& options, const ModelConfig& target) {
  const bool is_model = head_kind_of(options.kind) == HeadKind::draft;
  if (is_model) options.steps = 1;
  int& drafted = options.draft_vocabulary;
  drafted = drafted == 0 || is_model ? target.vocabulary : std::min(drafted, target.vocabulary);
}

bool learns_rounded(const HeadTrainOptions& options) {
  return options.weights == name_of(WeightLayout::int4);
}

OptimizerOptions optimizer_options(const HeadTrainOptions& options) {
  return {.rate = options.rate,
          .warmup = static_cast<double>(options.warmup),
          .decline = options.decline == "cosine" ? Decline::cosine : Decline::linear,
          .clip = options.clip,
          .weight_decay = options.weight_decay,
          .average = options.average};
}

LossOptions loss_options(const HeadTrainOptions& options, double feature_rms) {
  const double feature = options.kind == name_of(HeadKind::eagle) ? 1 : 0;
  return {.soft = options.soft,
          .top = options.top,
          .hard = options.hard,
          .acceptance = options.acceptance,
          .variation = options.variation,
          .coupled = options.coupled,
          .coupling = coupling_of(head_kind_of(options.kind)),
          .feature = options.feature < 0 ? feature : options.feature,
          .feature_rms = feature_rms};
}

void set_sizes(const HeadTrainOptions& options, const ModelConfig& target, HeadShape& shape) {
  shape.medusa_heads = options.steps;
  shape.medusa_layers = options.medusa_layers;
  shape.layers = options.layers;
  shape.mask_token = target.vocabulary - 1;  // of the least frequent ones
  if (options.intermediate > 0) shape.intermediate = options.intermediate;
}

Json settings_of(const HeadTrainOptions& options, const std::string& target_sha256) {
  Json settings = {{"kind", options.kind},
                   {"target_sha256", target_sha256},
                   {"batch", options.batch},
                   {"steps", options.steps},
                   {"intermediate", options.intermediate},
                   {"medusa_layers", options.medusa_layers},
                   {"rate", options.rate},
                   {"decline", options.decline},
                   {"warmup", options.warmup},
                   {"clip", options.clip},
                   {"weight_decay", options.weight_decay},
                   {"average", options.average},
                   {"loss",
                    {{"soft", options.soft},
                     {"top", options.top},
                     {"hard", options.hard},
                     {"acceptance", options.acceptance},
                     {"variation", options.variation},
                     {"coupled", options.coupled},
                     {"feature", options.feature}}},
                   {"noise", options.noise},
                   {"loss_tokens", options.loss_tokens},
                   {"max_tokens", options.max_tokens},
                   {"seed", options.seed},
                   {"precision", options.precision},
                   {"ranks", options.ranks},
                   {"start", options.start}};
  const HeadKind kind = head_kind_of(options.kind);
  if (learns_rounded(options)) settings["weights"] = options.weights;
  if (has_layers(kind)) settings["layers"] = options.layers;
  if (guesses_blocks(kind)) settings["anchors"] = options.anchors;
  return settings;
}

}  // namespace talon
