#include "draft/block/block_weights.h"

#include <fmt/format.h>

#include "draft/head/draft_vocabulary.h"
#include "draft/weight_reader.h"
#include "model/rope.h"

namespace talon {
namespace {

LayerWeights load_layer(WeightReader& reader, const BlockConfig& config, int index,
                        WeightLayout layout) {
  const auto name = [index](const char* part) { return fmt::format("layers.{}.{}", index, part); };
  const auto matrix = [&](const char* part) { return reader.matrix(name(part), layout); };
  LayerWeights layer;
  layer.attention_norm = reader.vector(name("input_layernorm.weight"));
  layer.q = matrix("self_attn.q_proj.weight");
  layer.k = matrix("self_attn.k_proj.weight");
  layer.v = matrix("self_attn.v_proj.weight");
  layer.o = matrix("self_attn.o_proj.weight");
  layer.q_bias = reader.vector(name("self_attn.q_proj.bias"), config.qkv_bias);
  layer.k_bias = reader.vector(name("self_attn.k_proj.bias"), config.qkv_bias);
  layer.v_bias = reader.vector(name("self_attn.v_proj.bias"), config.qkv_bias);
  layer.o_bias = reader.vector(name("self_attn.o_proj.bias"), config.output_bias);
  layer.q_norm = reader.vector(name("self_attn.q_norm.weight"), config.qk_norm);
  layer.k_norm = reader.vector(name("self_attn.k_norm.weight"), config.qk_norm);
  layer.ffn_norm = reader.vector(name("post_attention_layernorm.weight"));
  layer.gate = matrix("mlp.gate_proj.weight");
  layer.up = matrix("mlp.up_proj.weight");
  layer.down = matrix("mlp.down_proj.weight");
  return layer;
}

}  // namespace

BlockWeights load_block_head(const Checkpoint& checkpoint, const Model& target,
                             WeightLayout layout) {
  const HeadTensors tensors = block_tensors(checkpoint);
  BlockWeights head;
  head.source = checkpoint.path;
  head.config = read_block_config(checkpoint, tensors);
  choose_divisors(head.config.rope, target.config.context);
  const BlockConfig& config = head.config;
  head.taps = fit_to_target(config, target.config, tensors.doing());
  head.target_token = read_draft_vocabulary(tensors, target.config.vocabulary);
  head.backend = target.backend;
  WeightReader reader(tensors, *target.backend);
  head.embedding = target.embedding.get();
  head.embedding_scale = target.config.embedding_scale;
  if (config.own_embedding) {
    head.own_embedding = reader.matrix("embed_tokens.weight", WeightLayout::as_stored);
    head.embedding = head.own_embedding.get();
  }
  head.output = &target.output_weight();
  if (config.draft_vocabulary > 0) {
    head.own_output = reader.matrix("lm_head.weight", layout);
    head.output = head.own_output.get();
  }
  head.logit_form = config.logit_form.beside(target.config, config.has_rows_of_target());
  head.fc = reader.matrix("fc.weight", layout);
  head.context_norm = reader.vector("hidden_norm.weight");
  head.output_norm = reader.vector("norm.weight");
  for (int i = 0; i < config.layers; ++i) {
    head.layers.push_back(load_layer(reader, config, i, layout));
  }
  if (config.markov_rank > 0) {
    head.previous = reader.matrix("markov_head.markov_w1.weight", WeightLayout::as_stored);
    head.next = reader.matrix("markov_head.markov_w2.weight", layout);
    if (config.markov_kind != MarkovKind::vanilla) {
      const std::string_view joint = joint_tensor_of(config.markov_kind);
      head.joint = reader.matrix(fmt::format("{}.weight", joint), layout);
      head.joint_bias = reader.vector(fmt::format("{}.bias", joint));
    }
  }
  if (config.confidence) {
    head.confidence = reader.matrix("confidence_head.proj.weight", WeightLayout::f32);
    head.confidence_bias = reader.vector("confidence_head.proj.bias");
  }
  return head;
}

}  // namespace talon
