#include "model/config/tensor_names.h"

#include <fmt/format.h>

namespace talon {
namespace {

constexpr TensorNames kGguf = {
    // llama2.c checkpoints are given the same names
    .embedding = "token_embd.weight",
    .output = "output.weight",
    .final_norm = "output_norm.weight",
    .attention_norm = "blk.{}.attn_norm",
    .q = "blk.{}.attn_q",
    .k = "blk.{}.attn_k",
    .v = "blk.{}.attn_v",
    .o = "blk.{}.attn_output",
    .q_norm = "blk.{}.attn_q_norm",
    .k_norm = "blk.{}.attn_k_norm",
    .ffn_norm = "blk.{}.ffn_norm",
    .gate = "blk.{}.ffn_gate",
    .up = "blk.{}.ffn_up",
    .down = "blk.{}.ffn_down",
};

constexpr TensorNames kHuggingFace = {
    .embedding = "model.embed_tokens.weight",
    .output = "lm_head.weight",
    .final_norm = "model.norm.weight",
    .attention_norm = "model.layers.{}.input_layernorm",
    .q = "model.layers.{}.self_attn.q_proj",
    .k = "model.layers.{}.self_attn.k_proj",
    .v = "model.layers.{}.self_attn.v_proj",
    .o = "model.layers.{}.self_attn.o_proj",
    .q_norm = "model.layers.{}.self_attn.q_norm",
    .k_norm = "model.layers.{}.self_attn.k_norm",
    .ffn_norm = "model.layers.{}.post_attention_layernorm",
    .gate = "model.layers.{}.mlp.gate_proj",
    .up = "model.layers.{}.mlp.up_proj",
    .down = "model.layers.{}.mlp.down_proj",
};

}  // namespace

const TensorNames& TensorNames::of(CheckpointFormat format) {
  return format == CheckpointFormat::hugging_face ? kHuggingFace : kGguf;
}

std::string layer_tensor(std::string_view name, int layer, std::string_view part) {
  return fmt::format(fmt::runtime(name), layer) + "." + std::string(part);
}

}  // namespace talon
