#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

#include "model/model.h"
#include "sample/sampler.h"

namespace talon {

/// How codes are drawn.
struct PictureSampling {
  double guidance = 0;
  int guidance_tokens = 0;
  SamplerOptions sampler = {.temperature = 1};
  std::uint64_t seed = 1;
};
/// Declares --guidance, --guidance-tokens and the flags of the sampler.
void add_picture_sampling_flags(CLI::App& app, PictureSampling& sampling);
/// Takes --guidance and --top-k of the model's family (usual_sampling) where `app` was given none.
/// Leaves `sampling` as it is for a model that writes text.
void use_usual_sampling(const CLI::App& app, const Model& model, PictureSampling& sampling);

}  // namespace talon
