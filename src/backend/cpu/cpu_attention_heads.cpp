#include <algorithm>

#include "backend/cpu/cpu_attention_call.h"

// Queries, keys and values before they meet.
namespace talon::cpu {

/// Norms over whole rows, which come before the heads are shared out.
void Attention::norm_rows(const AttentionArgs& args) {
  const int key_dim = args.cache->shape.width(args.layer).key_dim;
  const auto norm = [&](const View& x, const View& weight) {
    if (!x || !weight || weight.cols == key_dim) return;
    const auto rows = static_cast<std::size_t>(x.rows);
    pool_.run([&](int) {
      for (std::size_t i; (i = pool_.next(0)) < rows;) {
        float* row = x.row(static_cast<int>(i));
        kernels_.rms_norm(row, weight.data, args.norm_epsilon, weight.cols, row);
      }
    });
  };
  norm(args.q, args.q_norm);
  norm(args.k, args.k_norm);
}

/// A sink is a position whose value is zero: its partial is joined to those of the keys.
void Attention::fill_sinks(const Call& call) {
  const int heads = call.args.sinks.cols;
  const auto size = static_cast<std::size_t>(call.partial_size);
  float* partial = sinks_.reserve<float>(static_cast<std::size_t>(heads) * size);
  std::fill_n(partial, static_cast<std::size_t>(heads) * size, 0.0F);
  for (int head = 0; head < heads; ++head, partial += size) {
    partial[0] = call.args.sinks.data[head] * kLog2E;
    partial[1] = 1.0F;
  }
}

/// Norm, rotation and factor of one head of q or k.
void Attention::turn(const Call& call, float* head, const View& norm, int position,
                     float factor) const {
  const AttentionArgs& args = call.args;
  const bool norms = norm && norm.cols == call.dim;
  if (norms && !args.norm_after_rope) {
    kernels_.rms_norm(head, norm.data, args.norm_epsilon, call.dim, head);
  }
  const int rotary = args.rope ? args.rope.cols : 0;
  const float first = norms && args.norm_after_rope ? 1.0F : factor;
  if (rotary > 0) kernels_.rotate(head, args.rope.row(position), first, rotary);
  for (int i = rotary; first != 1.0F && i < call.dim; ++i) head[i] *= first;
  if (norms && args.norm_after_rope) {
    kernels_.rms_norm(head, norm.data, args.norm_epsilon, call.dim, head);
    for (int i = 0; i < call.dim; ++i) head[i] *= factor;
  }
}

/// The query heads of one KV head, and its key and value, of one row.
void Attention::rotate_and_store(const Call& call, int row, int kv_head, Worker& worker) const {
  const AttentionArgs& args = call.args;
  const AttentionRow& place = call.layout.rows[static_cast<std::size_t>(row)];
  const int dim = call.dim, value_dim = call.value_dim;
  float factor = args.scale * kLog2E;
  if (args.query_scale) factor *= *args.query_scale.row(place.position);
  for (int i = 0; i < call.heads; ++i) {
    float* q = args.q.row(row) + (kv_head * call.heads + i) * dim;
    turn(call, q, args.q_norm, place.position, factor);
    if (call.rounded != nullptr) {
      kernels_.round(q, dim, call.rounded_query(row, kv_head * call.heads + i));
    }
  }
  if (!args.k) return;
  float* k = args.k.row(row) + kv_head * dim;
  float* v = args.v.row(row) + kv_head * value_dim;
  turn(call, k, args.k_norm, place.position, 1.0F);
  if (args.v_norm) kernels_.rms_norm(v, args.v_norm.data, args.norm_epsilon, value_dim, v);
  if (call.cache.shape.type == KvType::f32) {
    call.cache.write(args.layer, kv_head, place.slot, reinterpret_cast<const std::byte*>(k),
                     reinterpret_cast<const std::byte*>(v));
    return;
  }
  auto* stored = worker.stored.reserve<std::uint16_t>(static_cast<std::size_t>(dim + value_dim));
  if (call.cache.shape.type == KvType::f16) {
    kernels_.store_half(k, dim, stored);
    kernels_.store_half(v, value_dim, stored + dim);
  } else {
    kernels_.store_bf16(k, dim, stored);
    kernels_.store_bf16(v, value_dim, stored + dim);
  }
  call.cache.write(args.layer, kv_head, place.slot, reinterpret_cast<const std::byte*>(stored),
                   reinterpret_cast<const std::byte*>(stored + dim));
}

}  // namespace talon::cpu
