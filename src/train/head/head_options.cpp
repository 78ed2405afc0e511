#include "train/head/head_options.h"

namespace talon {

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
  if (options.kind == "dflash" || options.kind == "peagle") {
    settings["layers"] = options.layers;
    settings["anchors"] = options.anchors;
  }
  return settings;
}

}  // namespace talon
