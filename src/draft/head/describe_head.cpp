#include <fmt/format.h>

#include "draft/head/head_config.h"

namespace talon {

std::string_view name_of(HeadGeneration generation) {
  if (generation == HeadGeneration::peagle) return "P-EAGLE";
  return generation == HeadGeneration::eagle1 ? "EAGLE-1/2" : "EAGLE-3";
}

std::string_view name_of(HeadLayout layout) {
  switch (layout) {
    case HeadLayout::official:
      return "official";
    case HeadLayout::sglang:
      return "SGLang, SpecForge, AngelSlim";
    case HeadLayout::vllm:
      return "vLLM";
    case HeadLayout::speculators:
      return "speculators";
    case HeadLayout::gguf:
      return "GGUF";
  }
  return "";
}

Json describe_head(const Checkpoint& checkpoint) {
  const HeadConfig config = read_head_config(checkpoint, HeadTensors(checkpoint));
  Json parts = Json::array();
  const auto note = [&](bool present, const char* part) {
    if (present) parts.push_back(part);
  };
  const bool eagle1 = config.generation == HeadGeneration::eagle1;
  note(config.fc_bias, "fc bias");
  note(config.qkv_bias, "q, k and v biases");
  note(config.output_bias, "attention output bias");
  note(config.mlp_bias, "feed-forward biases");
  note(config.activation == InputTransform::gelu_tanh_gate, "gelu");
  note(config.qk_norm || config.head_layer_norms, "q and k norms");
  note(config.own_embedding, "own embedding");
  note(config.draft_vocabulary != 0 && !config.shared_output, "own output matrix");
  note(config.shared_output, "output rows of the target");
  note(config.tied_output, "output tied to the own embedding");
  note(config.reduced_vocabulary, "reduced vocabulary");
  note(eagle1 && config.embedding_norm, "embedding norm");
  note(eagle1 && config.feature_norm, "feature norm");
  note(config.attention_norm, "attention norm");
  note(eagle1 && config.output_norm, "output norm");
  note(config.tap_norms != 0, "a norm per tap");
  note(config.fused_norm, "a norm over all taps");
  note(config.norm_before_residual, "normed residual");
  note(config.norm_output, "normed output fed back");
  note(config.further_layers != 0, "further layers");
  const char* const usual = eagle1 ? "the final norm's output" : "2, half and last but two";
  return {{"architecture", "draft head"},
          {"variant", name_of(config.generation)},
          {"layout", name_of(config.layout)},
          {"hidden", config.hidden},
          {"feature_width", config.feature_width},
          {"intermediate", config.intermediate},
          {"heads", config.heads},
          {"kv_heads", config.kv_heads},
          {"head_dim", config.head_dim},
          {"vocabulary", config.vocabulary},
          {"draft_vocabulary", config.draft_vocabulary},
          {"context", config.context},
          {"norm_epsilon", std::stod(fmt::format("{}", config.norm_epsilon))},
          {"rope_base", config.rope.base},
          {"tap_layers", config.tap_layers.empty() ? Json(usual) : Json(config.tap_layers)},
          {"parts", parts}};
}

}  // namespace talon
