#include "model/config/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

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
  names.attention_gate = "blk.{}.attn_gate";
  names.ffn_norm = "blk.{}.ffn_norm";
  names.gate = "blk.{}.ffn_gate";
  names.up = "blk.{}.ffn_up";
  names.gate_up = "blk.{}.ffn_up";
  names.down = "blk.{}.ffn_down";
  return names;
}

void add_gguf_experts(TensorNames& names) {
  names.router = "blk.{}.ffn_gate_inp";
  names.choice_bias = "blk.{}.exp_probs_b.bias";
  names.expert_gate = "blk.{}.ffn_gate_exps";
  names.expert_up = "blk.{}.ffn_up_exps";
  names.expert_gate_up = "blk.{}.ffn_gate_up_exps";
  names.expert_down = "blk.{}.ffn_down_exps";
  names.shared_gate = "blk.{}.ffn_gate_shexp";
  names.shared_up = "blk.{}.ffn_up_shexp";
  names.shared_gate_up = "blk.{}.ffn_gate_up_shexp";
  names.shared_down = "blk.{}.ffn_down_shexp";
  names.shared_router = "blk.{}.ffn_gate_inp_shexp";
  names.router_scale = "blk.{}.ffn_gate_inp.scale";
  names.expert_scale = "blk.{}.ffn_down_exps.scale";
  names.pre_expert_norm = "blk.{}.pre_ffw_norm_2";
  names.post_dense_norm = "blk.{}.post_ffw_norm_1";
  names.post_expert_norm = "blk.{}.post_ffw_norm_2";
  names.layer_embedding = "per_layer_token_embd.weight";
  names.layer_projection = "per_layer_model_proj.weight";
  names.layer_projection_norm = "per_layer_proj_norm.weight";
  names.input_gate = "blk.{}.inp_gate";
  names.input_projection = "blk.{}.proj";
  names.input_norm = "blk.{}.post_norm";
  names.q_down = "blk.{}.attn_q_a";
  names.q_down_norm = "blk.{}.attn_q_a_norm";
  names.q_up = "blk.{}.attn_q_b";
  names.kv_down = "blk.{}.attn_kv_a_mqa";
  names.kv_down_norm = "blk.{}.attn_kv_a_norm";
  names.kv_up = "blk.{}.attn_kv_b";
  names.key_up = "blk.{}.attn_k_b";
  names.value_up = "blk.{}.attn_v_b";
  names.state_inputs = "blk.{}.attn_qkv";
  names.state_gate = "blk.{}.attn_gate";
  names.state_write = "blk.{}.ssm_beta";
  names.state_decay = "blk.{}.ssm_alpha";
  names.state_fused_inputs = "blk.{}.ssm_in";
  names.state_fused_gates = "blk.{}.ssm_ba";
  names.state_filter = "blk.{}.ssm_conv1d";
  names.state_rate = "blk.{}.ssm_a";
  names.state_bias = "blk.{}.ssm_dt.bias";
  names.state_skip = "blk.{}.ssm_d";
  names.state_norm = "blk.{}.ssm_norm";
  names.state_o = "blk.{}.ssm_out";
}

/// Whether one norm stands before both halves: not so of GPT-NeoX, whose halves are parallel, too.
bool shares_norm(const ModelConfig& config) {
  constexpr std::string_view kFamilies[] = {"cohere", "cohere2", "command-r",
                                            "phi",    "phi2",    "stablelm"};
  return std::ranges::find(kFamilies, config.architecture) != std::end(kFamilies) &&
         !config.plans.empty() && config.plans[0].parallel;
}

TensorNames gguf_names_of(const ModelConfig& config) {
  const std::string& architecture = config.architecture;
  TensorNames names = gguf_names();
  add_gguf_experts(names);
  // There the name of a norm behind attention is that of the one before the experts.
  if (architecture == "gpt-oss" || architecture == "glm4moe" || architecture == "seed_oss" ||
      architecture.starts_with("qwen3next") || architecture.starts_with("qwen35")) {
    names.ffn_norm = names.post_attention_norm;
  }
  if (architecture == "hy_v3") names.choice_bias = "blk.{}.exp_probs_b";
  if (shares_norm(config)) names.ffn_norm = names.attention_norm;
  if (architecture.starts_with("nemotron_h")) names.ffn_norm = names.attention_norm;
  names.bare_ffn_norm = architecture == "falcon-h1";
  if (architecture.starts_with("lfm2")) {
    if (!config.forms.usual_final_norm) names.final_norm = "token_embd_norm";
    names.state_fused_inputs = "blk.{}.shortconv.in_proj";
    names.state_filter = "blk.{}.shortconv.conv";
    names.state_o = "blk.{}.shortconv.out_proj";
  }
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

/// `root`: what holds the experts. Stacks of all have the names without a number.
void name_expert_matrices(const std::string& root, TensorNames& names) {
  names.expert_gate = root + "experts.{}.gate_proj";
  names.expert_up = root + "experts.{}.up_proj";
  names.expert_gate_up = root + "experts.gate_up_proj";
  names.expert_down = root + "experts.{}.down_proj";
}

/// `root`: what holds router and experts, below a layer.
void add_experts(const std::string& root, TensorNames& names) {
  names.router = root + "gate";
  names.choice_bias = root + "gate.e_score_correction_bias";
  name_expert_matrices(root, names);
  names.shared_gate = root + "shared_expert.gate_proj";
  names.shared_up = root + "shared_expert.up_proj";
  names.shared_gate_up = root + "shared_expert.gate_up_proj";
  names.shared_down = root + "shared_expert.down_proj";
  names.shared_router = root + "shared_expert_gate";
}

void name_shared(const std::string& root, TensorNames& names) {
  names.shared_gate = root + "gate_proj";
  names.shared_up = root + "up_proj";
  names.shared_down = root + "down_proj";
}

void add_latents(const std::string& layer, TensorNames& names) {
  names.q_down = layer + "self_attn.q_a_proj";
  names.q_down_norm = layer + "self_attn.q_a_layernorm";
  names.q_up = layer + "self_attn.q_b_proj";
  names.kv_down = layer + "self_attn.kv_a_proj_with_mqa";
  names.kv_down_norm = layer + "self_attn.kv_a_layernorm";
  names.kv_up = layer + "self_attn.kv_b_proj";
}

void add_gemma4(const std::string& prefix, TensorNames& names) {
  const std::string layer = prefix + "layers.{}.";
  names.router = layer + "router.proj";
  names.router_scale = layer + "router.scale";
  names.expert_scale = layer + "router.per_expert_scale";
  name_expert_matrices(layer, names);
  names.pre_expert_norm = layer + "pre_feedforward_layernorm_2";
  names.post_dense_norm = layer + "post_feedforward_layernorm_1";
  names.post_expert_norm = layer + "post_feedforward_layernorm_2";
  names.layer_embedding = prefix + "embed_tokens_per_layer.weight";
  names.layer_projection = prefix + "per_layer_model_projection.weight";
  names.layer_projection_norm = prefix + "per_layer_projection_norm.weight";
  names.input_gate = layer + "per_layer_input_gate";
  names.input_projection = layer + "per_layer_projection";
  names.input_norm = layer + "post_per_layer_input_norm";
}

void add_states(const std::string& layer, TensorNames& names) {
  const std::string root = layer + "linear_attn.";
  names.state_inputs = root + "in_proj_qkv";
  names.state_gate = root + "in_proj_z";
  names.state_write = root + "in_proj_b";
  names.state_decay = root + "in_proj_a";
  names.state_fused_inputs = root + "in_proj_qkvz";
  names.state_fused_gates = root + "in_proj_ba";
  names.state_filter = root + "conv1d";
  names.state_rate = root + "A_log";
  names.state_bias = root + "dt_bias";
  names.state_norm = root + "norm";
  names.state_o = root + "out_proj";
}

void add_mamba(const std::string& root, TensorNames& names) {
  names.state_fused_inputs = root + "in_proj";
  names.state_filter = root + "conv1d";
  names.state_rate = root + "A_log";
  names.state_bias = root + "dt_bias";
  names.state_skip = root + "D";
  names.state_norm = root + "norm";
  names.state_o = root + "out_proj";
}

/// Experts whose matrices have numbers, as Mixtral's.
void name_numbered_experts(const std::string& root, TensorNames& names) {
  add_experts(root, names);
  names.expert_gate = root + "experts.{}.w1";
  names.expert_up = root + "experts.{}.w3";
  names.expert_down = root + "experts.{}.w2";
}

void name_lfm2(const std::string& prefix, TensorNames& names) {
  const std::string layer = prefix + "layers.{}.", network = layer + "feed_forward.";
  names.final_norm = prefix + "embedding_norm";
  names.attention_norm = layer + "operator_norm";
  names.ffn_norm = layer + "ffn_norm";
  names.o = layer + "self_attn.out_proj";
  names.q_norm = layer + "self_attn.q_layernorm";
  names.k_norm = layer + "self_attn.k_layernorm";
  names.gate = network + "w1";
  names.up = network + "w3";
  names.down = network + "w2";
  name_numbered_experts(network, names);
  names.choice_bias = network + "expert_bias";
  names.state_fused_inputs = layer + "conv.in_proj";
  names.state_filter = layer + "conv.conv";
  names.state_o = layer + "conv.out_proj";
}

void name_nemotron_h(const std::string& prefix, TensorNames& names) {
  const std::string layer = prefix + "layers.{}.", mixer = layer + "mixer.";
  names.embedding = prefix + "embeddings.weight";
  names.final_norm = prefix + "norm_f";
  names.attention_norm = names.ffn_norm = layer + "norm";
  names.q = mixer + "q_proj";
  names.k = mixer + "k_proj";
  names.v = mixer + "v_proj";
  names.o = mixer + "o_proj";
  names.up = mixer + "up_proj";
  names.down = mixer + "down_proj";
  add_experts(mixer, names);
  name_shared(mixer + "shared_experts.", names);
  add_mamba(mixer, names);
}

/// What a family calls its experts, where that is not "mlp".
void name_experts(const std::string& family, const std::string& layer, TensorNames& names) {
  add_experts(layer + "mlp.", names);
  add_latents(layer, names);
  add_states(layer, names);
  if (family == "mixtral" || family == "phimoe") {
    name_numbered_experts(layer + "block_sparse_moe.", names);
  } else if (family.starts_with("granitemoe")) {
    const std::string root = layer + "block_sparse_moe.";
    names.router = root + "router.layer";
    names.expert_gate_up = root + "input_linear";
    names.expert_down = root + "output_linear";
    names.shared_gate_up = names.gate_up = layer + "shared_mlp.input_linear";
    names.shared_down = names.down = layer + "shared_mlp.output_linear";
    add_mamba(layer + "mamba.", names);
  } else if (family == "gpt_oss") {
    names.router = layer + "mlp.router";
  } else if (family == "llama4_text" || family == "llama4") {
    const std::string root = layer + "feed_forward.";
    names.router = root + "router";
    name_expert_matrices(root, names);
    name_shared(root + "shared_expert.", names);
    names.gate = root + "gate_proj";
    names.up = root + "up_proj";
    names.down = root + "down_proj";
  } else if (family == "mimo_v2_flash") {
    names.sinks = layer + "self_attn.attention_sink_bias";
  } else if (family.starts_with("deepseek") || family.starts_with("glm4_moe") ||
             family.starts_with("glm4v_moe") || family == "kimi_k2" || family == "mistral4") {
    name_shared(layer + "mlp.shared_experts.", names);
  } else if (family == "ernie4_5_moe") {
    name_shared(layer + "mlp.shared_experts.", names);
    names.choice_bias = layer + "mlp.moe_statics.e_score_correction_bias";
  }
}

/// Ling 2.0.
void name_bailing(const std::string& prefix, TensorNames& names) {
  const std::string layer = prefix + "layers.{}.";
  names.embedding = prefix + "word_embeddings.weight";
  names.qkv = layer + "attention.query_key_value";
  names.o = layer + "attention.dense";
  names.q_norm = layer + "attention.query_layernorm";
  names.k_norm = layer + "attention.key_layernorm";
  names.choice_bias = layer + "mlp.gate.expert_bias";
}

/// What the families of later/later_families.cpp call otherwise.
void name_later(const std::string& family, const std::string& prefix, TensorNames& names) {
  const std::string layer = prefix + "layers.{}.";
  const bool bailing = family.starts_with("bailing_moe");
  if (bailing) name_bailing(prefix, names);
  if (bailing || family == "exaone_moe" || family == "dots1" || family == "afmoe" ||
      family == "solar_open") {
    name_shared(layer + "mlp.shared_experts.", names);
  }
  if (family == "apertus") {
    names.attention_norm = layer + "attention_layernorm";
    names.activation = layer + "mlp.act_fn";
  } else if (family == "minimax_m2") {
    name_numbered_experts(layer + "block_sparse_moe.", names);
    names.choice_bias = layer + "block_sparse_moe.e_score_correction_bias";
  } else if (family == "hunyuan_v1_moe") {
    names.q_norm = layer + "self_attn.query_layernorm";
    names.k_norm = layer + "self_attn.key_layernorm";
    names.router = layer + "mlp.gate.wg";
    name_shared(layer + "mlp.shared_mlp.", names);
  } else if (family == "exaone_moe") {
    names.choice_bias = layer + "mlp.e_score_correction_bias";
  } else if (family == "hy_v3") {
    names.router = layer + "mlp.router.gate";
    names.choice_bias = layer + "mlp.expert_bias";
    name_shared(layer + "mlp.shared_mlp.", names);
  } else if (family == "afmoe") {
    names.attention_gate = layer + "self_attn.gate_proj";
    names.ffn_norm = layer + "pre_mlp_layernorm";
    names.post_ffn_norm = layer + "post_mlp_layernorm";
    names.router = layer + "mlp.router.gate";
    names.choice_bias = layer + "mlp.expert_bias";
  }
}

void add_captions(const std::string& prefix, TensorNames& names) {
  names.captions = prefix + "cls_embedding.cap_proj.";
  names.null_caption = prefix + "cls_embedding.uncond_embedding";
}

TensorNames llamagen_names(const TensorForms& forms) {
  TensorNames names;
  if (!forms.fused_qkv) {  // LANTERN's folders
    names = llama_names(forms);
    add_captions(forms.prefix, names);
    return names;
  }
  add_captions("", names);
  names.embedding = "tok_embeddings.weight";
  names.prompts = "cls_embedding.embedding_table.weight";
  names.output = "output.weight";
  names.final_norm = "norm";
  names.attention_norm = "layers.{}.attention_norm";
  names.qkv = "layers.{}.attention.wqkv";
  names.o = "layers.{}.attention.wo";
  names.ffn_norm = "layers.{}.ffn_norm";
  names.gate = "layers.{}.feed_forward.w1";
  names.up = "layers.{}.feed_forward.w3";
  names.down = "layers.{}.feed_forward.w2";
  return names;
}

TensorNames hugging_face_names(const ModelConfig& config) {
  const std::string layer = config.forms.prefix + "layers.{}.";
  const std::string& family = config.architecture;
  if (family == "gpt_neox") return neox_names(config.forms);
  TensorNames names = llama_names(config.forms);
  name_experts(family, layer, names);
  if (family.starts_with("gemma4")) add_gemma4(config.forms.prefix, names);
  if (family == "glm4" || family == "glm4v" || family == "glm4v_text") {
    names.post_attention_norm = layer + "post_self_attn_layernorm";
    names.post_ffn_norm = layer + "post_mlp_layernorm";
  } else if (family == "starcoder2") {
    names.up = layer + "mlp.c_fc";
    names.down = layer + "mlp.c_proj";
  } else if (family == "phi") {
    names.final_norm = config.forms.prefix + "final_layernorm";
    names.o = layer + "self_attn.dense";
    names.q_norm = layer + "self_attn.q_layernorm";
    names.k_norm = layer + "self_attn.k_layernorm";
    names.up = layer + "mlp.fc1";
    names.down = layer + "mlp.fc2";
  } else if (family == "bamba" || family == "falcon_h1") {
    names.final_norm = config.forms.prefix + "final_layernorm";
    names.gate = layer + "feed_forward.gate_proj";
    names.up = layer + "feed_forward.up_proj";
    names.down = layer + "feed_forward.down_proj";
    add_mamba(layer + "mamba.", names);
  } else if (family == "nemotron_h") {
    name_nemotron_h(config.forms.prefix, names);
  } else if (family.starts_with("lfm2")) {
    name_lfm2(config.forms.prefix, names);
  } else if (family == "stablelm") {  // of its heads one after the other
    names.q_norm = layer + "self_attn.q_layernorm.norms.{}";
    names.k_norm = layer + "self_attn.k_layernorm.norms.{}";
  } else if (family == "hunyuan_v1_dense") {
    names.q_norm = layer + "self_attn.query_layernorm";
    names.k_norm = layer + "self_attn.key_layernorm";
  } else if (family.starts_with("chameleon")) {
    names.post_attention_norm = names.attention_norm;  // where it has norms behind each half
    names.post_ffn_norm = names.ffn_norm;
  } else if (config.plans[0].post_norms) {  // Gemma and OLMo
    names.post_attention_norm = layer + "post_attention_layernorm";
    names.ffn_norm = layer + "pre_feedforward_layernorm";
    names.post_ffn_norm = layer + "post_feedforward_layernorm";
  }
  name_later(family, config.forms.prefix, names);
  if (shares_norm(config)) names.ffn_norm = names.attention_norm;
  if (!config.forms.ffn_norm.empty()) names.ffn_norm = layer + config.forms.ffn_norm;
  return names;
}

}  // namespace

TensorNames TensorNames::of(CheckpointFormat format, const ModelConfig& config) {
  if (config.architecture == "llamagen") return llamagen_names(config.forms);
  return format == CheckpointFormat::hugging_face ? hugging_face_names(config)
                                                  : gguf_names_of(config);
}

std::string TensorNames::ffn_norm_of(int layer) const {
  return bare_ffn_norm ? fmt::format(fmt::runtime(ffn_norm), layer) : layer_tensor(ffn_norm, layer);
}

std::string layer_tensor(std::string_view name, int layer, std::string_view part) {
  return fmt::format(fmt::runtime(name), layer) + "." + std::string(part);
}

}  // namespace talon
