#include "model/config/tensor_names.h"

#include <fmt/format.h>

namespace talon {
namespace {

/// llama2.c checkpoints are given the same names.
TensorNames gguf_names() {
  TensorNames names;
  names.embedding = "token_embd.weight";
  names.output = "output.weight";
  names.final_norm = "output_norm";
  names.attention_norm = "blk.{}.attn_norm";
  names.q = "blk.{}.attn_q";
  names.k = "blk.{}.attn_k";
  names.v = "blk.{}.attn_v";
  names.qkv = "blk.{}.attn_qkv";
  names.o = "blk.{}.attn_output";
  names.q_norm = "blk.{}.attn_q_norm";
  names.k_norm = "blk.{}.attn_k_norm";
  names.sinks = "blk.{}.attn_sinks";
  names.post_attention_norm = "blk.{}.post_attention_norm";
  names.post_ffn_norm = "blk.{}.post_ffw_norm";
  names.layer_scale = "blk.{}.layer_output_scale";
  names.ffn_norm = "blk.{}.ffn_norm";
  names.gate = "blk.{}.ffn_gate";
  names.up = "blk.{}.ffn_up";
  names.gate_up = "blk.{}.ffn_up";
  names.down = "blk.{}.ffn_down";
  return names;
}

TensorNames gguf_names_of(const std::string& architecture) {
  TensorNames names = gguf_names();
  // There the name of a norm behind attention is that of the one before the experts.
  if (architecture == "gpt-oss" || architecture == "glm4moe") {
    names.ffn_norm = names.post_attention_norm;
  }
  if (architecture == "cohere2") names.ffn_norm = names.attention_norm;
  return names;
}

TensorNames llama_names(const TensorForms& forms) {
  const std::string layer = forms.prefix + "layers.{}.";
  TensorNames names;
  names.embedding = forms.prefix + "embed_tokens.weight";
  names.output = forms.output + "weight";
  names.final_norm = forms.prefix + "norm";
  names.attention_norm = layer + "input_layernorm";
  names.q = layer + "self_attn.q_proj";
  names.k = layer + "self_attn.k_proj";
  names.v = layer + "self_attn.v_proj";
  names.qkv = layer + "self_attn.qkv_proj";
  names.o = layer + "self_attn.o_proj";
  names.q_norm = layer + "self_attn.q_norm";
  names.k_norm = layer + "self_attn.k_norm";
  names.sinks = layer + "self_attn.sinks";
  names.layer_scale = layer + "layer_scalar";
  names.ffn_norm = layer + "post_attention_layernorm";
  names.gate = layer + "mlp.gate_proj";
  names.up = layer + "mlp.up_proj";
  names.gate_up = layer + "mlp.gate_up_proj";
  names.down = layer + "mlp.down_proj";
  return names;
}

TensorNames neox_names(const TensorForms& forms) {
  const std::string layer = forms.prefix + "layers.{}.";
  TensorNames names = llama_names(forms);
  names.embedding = forms.prefix + "embed_in.weight";
  names.final_norm = forms.prefix + "final_layer_norm";
  names.qkv = layer + "attention.query_key_value";
  names.o = layer + "attention.dense";
  names.up = layer + "mlp.dense_h_to_4h";
  names.down = layer + "mlp.dense_4h_to_h";
  return names;
}

TensorNames hugging_face_names(const ModelConfig& config) {
  const std::string layer = config.forms.prefix + "layers.{}.";
  const std::string& family = config.architecture;
  if (family == "gpt_neox") return neox_names(config.forms);
  TensorNames names = llama_names(config.forms);
  if (family == "glm4") {
    names.post_attention_norm = layer + "post_self_attn_layernorm";
    names.post_ffn_norm = layer + "post_mlp_layernorm";
  } else if (family == "starcoder2") {
    names.up = layer + "mlp.c_fc";
    names.down = layer + "mlp.c_proj";
  } else if (family == "cohere2") {
    names.ffn_norm = names.attention_norm;
  } else if (config.plans[0].post_norms) {  // Gemma and OLMo
    names.post_attention_norm = layer + "post_attention_layernorm";
    names.ffn_norm = layer + "pre_feedforward_layernorm";
    names.post_ffn_norm = layer + "post_feedforward_layernorm";
  }
  return names;
}

}  // namespace

TensorNames TensorNames::of(CheckpointFormat format, const ModelConfig& config) {
  return format == CheckpointFormat::hugging_face ? hugging_face_names(config)
                                                  : gguf_names_of(config.architecture);
}

std::string layer_tensor(std::string_view name, int layer, std::string_view part) {
  return fmt::format(fmt::runtime(name), layer) + "." + std::string(part);
}

}  // namespace talon
