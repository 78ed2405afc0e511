#include "draw/usual_sampling.h"

#include "core/error.h"

namespace talon {
namespace {

UsualSampling sampling_of_family(const ModelConfig& config) {
  switch (config.image->prompt) {
    case ImagePlan::Prompt::class_number:
      return {4, 2000};
    case ImagePlan::Prompt::caption:
      // LANTERN's folders keep queries, keys and values apart, LlamaGen's files do not.
      return config.forms.fused_qkv ? UsualSampling{7.5, 1000} : UsualSampling{3, 2000};
    case ImagePlan::Prompt::chameleon:
    case ImagePlan::Prompt::lumina:
      return {3, 2000};
    case ImagePlan::Prompt::janus:
      return {5, 0};
    case ImagePlan::Prompt::words:
      break;
  }
  return {};
}

}  // namespace

UsualSampling usual_sampling(const ModelConfig& config) {
  expects(config.image.has_value(), "a model that draws pictures");
  UsualSampling usual = sampling_of_family(config);
  if (usual.top_k >= config.image->codes_of(config.vocabulary)) usual.top_k = 0;
  return usual;
}

}  // namespace talon
