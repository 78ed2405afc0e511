#include "cli/image/picture_sampling.h"

#include "cli/options/flags.h"
#include "cli/options/sampler_options.h"
#include "draw/usual_sampling.h"

namespace talon {

void add_picture_sampling_flags(CLI::App& app, PictureSampling& sampling) {
  constexpr const char* kOfFamily = "as the model's family";
  add_real(app, "--guidance", sampling.guidance, 0, 1e6,
           "how far from what the model draws without a prompt; at most 1: no guide")
      ->default_str(kOfFamily);
  add_int(app, "--guidance-tokens", sampling.guidance_tokens, 0, 1 << 20,
          "first tokens of a picture that are guided; 0: all");
  add_sampler_flags(app, sampling.sampler, sampling.seed);
  app.get_option("--top-k")->default_str(kOfFamily);
}

void use_usual_sampling(const CLI::App& app, const Model& model, PictureSampling& sampling) {
  if (!model.config.image) return;
  const UsualSampling usual = usual_sampling(model.config);
  if (app.get_option("--guidance")->count() == 0) sampling.guidance = usual.guidance;
  if (app.get_option("--top-k")->count() == 0) sampling.sampler.top_k = usual.top_k;
}

}  // namespace talon
