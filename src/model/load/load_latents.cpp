#include <cstring>

#include "model/load/load_layer.h"

namespace talon {
namespace {

/// Rows of one head's rotary part, in half-split order.
std::vector<std::int32_t> rotary_rows(int first, int count, bool pairwise) {
  std::vector<std::int32_t> order;
  const int step = pairwise ? 2 : 1;
  for (int half = 0; half < step; ++half) {
    for (int i = half; i < count; i += step) order.push_back(first + i);
  }
  return order;
}

}  // namespace

/// Heads of q_up go [plain | rotated]; kv_down goes [latent | rotated].
void LayerLoader::load_latents(int layer, const LayerPlan& plan, LayerWeights& w) {
  const LatentPlan& l = plan.latent;
  const auto name = [&](const std::string& of) { return layer_tensor(of, layer); };
  const bool pairwise = config_.interleaved_rope;
  const int head_dim = l.plain_dim + l.rotary_dim, q_rows = plan.heads * head_dim;
  int q_inputs = config_.hidden;
  if (l.q_rank > 0) {
    q_inputs = l.q_rank;
    w.latent.q_down = tensors_.matrix(name(names_.q_down), l.q_rank, config_.hidden);
    w.latent.q_norm = norm(name(names_.q_down_norm), l.q_rank);
  }
  const std::string q_up = name(l.q_rank > 0 ? names_.q_up : names_.q);
  std::vector<std::int32_t> plain;
  for (int head = 0; head < plan.heads; ++head) {
    for (int i = 0; i < l.plain_dim; ++i) plain.push_back(head * head_dim + i);
    const auto order = rotary_rows(head * head_dim + l.plain_dim, l.rotary_dim, pairwise);
    w.latent.q_rotary.push_back(tensors_.matrix(q_up, l.rotary_dim, q_inputs, {0, q_rows, order}));
  }
  w.latent.q_plain =
      tensors_.matrix(q_up, static_cast<int>(plain.size()), q_inputs, {0, q_rows, plain});
  const int kv_rows = l.kv_rank + l.rotary_dim;
  const std::string kv_down = name(names_.kv_down);
  w.latent.latent = tensors_.matrix(kv_down, l.kv_rank, config_.hidden, {0, kv_rows});
  const auto key_order = rotary_rows(l.kv_rank, l.rotary_dim, pairwise);
  w.latent.rotary_key =
      tensors_.matrix(kv_down, l.rotary_dim, config_.hidden, {0, kv_rows, key_order});
  w.latent.latent_norm = norm(name(names_.kv_down_norm), l.kv_rank);
  load_latent_ups(layer, plan, w.latent);
  w.o = tensors_.matrix(name(names_.o), config_.hidden, plan.heads * l.output_dim);
}

/// Newer GGUF files hold the matrices of keys turned round, those of values apart; others hold
/// [plain part of keys | values] of each head in one matrix.
void LayerLoader::load_latent_ups(int layer, const LayerPlan& plan, LatentWeights& w) {
  const LatentPlan& l = plan.latent;
  const std::string keys = names_.key_up.empty() ? "" : layer_tensor(names_.key_up, layer);
  if (!keys.empty() && tensors_.has(keys)) {
    const std::string values = layer_tensor(names_.value_up, layer);
    for (int head = 0; head < plan.heads; ++head) {
      w.key_up.push_back(tensors_.matrix_of_stack(keys, plan.heads, head, l.kv_rank, l.plain_dim));
      w.value_up.push_back(
          tensors_.matrix_of_stack(values, plan.heads, head, l.output_dim, l.kv_rank));
    }
    return;
  }
  const std::string name = layer_tensor(names_.kv_up, layer);
  const int head_rows = l.plain_dim + l.output_dim;
  const int rows = plan.heads * head_rows;
  StoredMatrix matrix = tensors_.stored_matrix(name, rows, l.kv_rank);
  std::vector<float> values;
  if (block_shape(matrix.type).elements != 1) {  // blocks cannot be turned round
    values.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(l.kv_rank));
    dequantize(matrix.type, matrix.bytes, values);
    matrix.type = StorageType::f32;
    matrix.bytes = std::as_bytes(std::span(values));
  }
  const std::size_t size = block_shape(matrix.type).bytes;
  const auto rank = static_cast<std::size_t>(l.kv_rank);
  const auto plain = static_cast<std::size_t>(l.plain_dim);
  std::vector<std::byte> turned(rank * plain * size);
  for (int head = 0; head < plan.heads; ++head) {
    const std::byte* from =
        matrix.bytes.data() + static_cast<std::size_t>(head * head_rows) * rank * size;
    for (std::size_t row = 0; row < rank; ++row) {
      for (std::size_t col = 0; col < plain; ++col) {
        std::memcpy(&turned[(row * plain + col) * size], from + (col * rank + row) * size, size);
      }
    }
    w.key_up.push_back(tensors_.made_matrix({name, matrix.type, l.kv_rank, l.plain_dim, turned}));
    const std::span value_rows(from + plain * rank * size,
                               static_cast<std::size_t>(l.output_dim) * rank * size);
    w.value_up.push_back(
        tensors_.made_matrix({name, matrix.type, l.output_dim, l.kv_rank, value_rows}));
  }
}

}  // namespace talon
