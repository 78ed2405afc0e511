#include "backend/reference/reference_attention.h"

#include <algorithm>
#include <cmath>

#include "backend/host_layout.h"
#include "backend/reference/reference_math.h"
#include "core/error.h"

namespace talon::reference {
namespace {

/// The rotation of pairs (i, i + rotary / 2).
void rotate(float* head, int rotary, const float* rope) {
  const int half = rotary / 2;
  for (int i = 0; i < half; ++i) {
    const double low = head[i], high = head[i + half];
    const double cosine = rope[i];
    const double sine = rope[i + half];
    head[i] = static_cast<float>(low * cosine - high * sine);
    head[i + half] = static_cast<float>(high * cosine + low * sine);
  }
}

void norm(float* x, int cols, const View& weight, float epsilon) {
  std::vector<double> values(x, x + cols);
  rms_norm(values, weight.data, epsilon);
  std::copy(values.begin(), values.end(), x);
}

/// All heads of a row of q or k: norm, then rotation, or the other way round.
void norm_and_rotate(const AttentionArgs& args, const View& x, int row, int head_dim,
                     const View& weight, int position) {
  float* values = x.row(row);
  const auto norm_all = [&] {
    if (!weight) return;
    for (int col = 0; col < x.cols; col += weight.cols) {
      norm(values + col, weight.cols, weight, args.norm_epsilon);
    }
  };
  if (!args.norm_after_rope) norm_all();
  if (args.rope) {
    for (int col = 0; col < x.cols; col += head_dim) {
      rotate(values + col, args.rope.cols, args.rope.row(position));
    }
  }
  if (args.norm_after_rope) norm_all();
}

/// The slots a row sees, in logical order, first to last.
std::vector<Slot> visible_slots(const AttentionLayout& layout, const AttentionRow& row,
                                const AttentionArgs& args) {
  const auto pages = layout.pages[static_cast<std::size_t>(row.sequence)];
  std::vector<Slot> slots;
  for (int j = first_visible(args, row); j < row.visible; ++j) {
    if (j < row.contiguous) {
      slots.push_back(pages[static_cast<std::size_t>(j / kPageRows)] * kPageRows + j % kPageRows);
    } else {
      slots.push_back(layout.extra[static_cast<std::size_t>(row.extra_begin + j - row.contiguous)]);
    }
  }
  return slots;
}

/// Weights of the scores; a sink takes its part of the sum.
void weigh(const AttentionArgs& args, std::size_t head, std::vector<double>& scores) {
  if (args.soft_cap > 0) {
    for (double& score : scores) score = args.soft_cap * std::tanh(score / args.soft_cap);
  }
  if (args.sinks) scores.push_back(args.sinks.data[head]);
  softmax(scores);
  if (args.sinks) scores.pop_back();
}

}  // namespace

void store_row(const AttentionArgs& args, int row) {
  auto& cache = static_cast<Cache&>(*args.cache);
  const AttentionLayout& layout = HostLayout::of(*args.layout);
  const AttentionRow& place = layout.rows[static_cast<std::size_t>(row)];
  const KvWidth width = cache.shape.width(args.layer);
  norm_and_rotate(args, args.q, row, width.key_dim, args.q_norm, place.position);
  if (!args.k) return;
  norm_and_rotate(args, args.k, row, width.key_dim, args.k_norm, place.position);
  float* v = args.v.row(row);
  for (int col = 0; args.v_norm && col < args.v.cols; col += width.value_dim) {
    norm(v + col, width.value_dim, args.v_norm, args.norm_epsilon);
  }
  const auto key_cols = static_cast<std::size_t>(width.key_cols());
  const auto value_cols = static_cast<std::size_t>(width.value_cols());
  cache.write(args.layer, Cache::Part::keys, place.slot, {args.k.row(row), key_cols});
  cache.write(args.layer, Cache::Part::values, place.slot, {v, value_cols});
}

void attend_row(const AttentionArgs& args, int row) {
  const auto& cache = static_cast<const Cache&>(*args.cache);
  const AttentionLayout& layout = HostLayout::of(*args.layout);
  const AttentionRow& place = layout.rows[static_cast<std::size_t>(row)];
  const std::vector<Slot> slots = visible_slots(layout, place, args);
  const KvWidth width = cache.shape.width(args.layer);
  const auto key_dim = static_cast<std::size_t>(width.key_dim);
  const auto value_dim = static_cast<std::size_t>(width.value_dim);
  const std::size_t heads = static_cast<std::size_t>(args.q.cols) / key_dim;
  const std::size_t heads_per_kv = heads / static_cast<std::size_t>(width.kv_heads);
  double scale = args.scale;
  if (args.query_scale) scale *= *args.query_scale.row(place.position);

  const float* q_row = args.q.row(row);
  const std::vector<double> q(q_row, q_row + args.q.cols);
  std::vector<double> kv(static_cast<std::size_t>(width.key_cols()));
  std::vector<std::vector<double>> p(heads, std::vector<double>(slots.size()));
  for (std::size_t j = 0; j < slots.size(); ++j) {
    cache.read(args.layer, Cache::Part::keys, slots[j], kv);
    for (std::size_t head = 0; head < heads; ++head) {
      const double* key = kv.data() + head / heads_per_kv * key_dim;
      p[head][j] = scale * dot(q.data() + head * key_dim, key, key_dim);
    }
  }
  for (std::size_t head = 0; head < heads; ++head) weigh(args, head, p[head]);

  std::vector<double> out(heads * value_dim, 0.0);
  kv.resize(static_cast<std::size_t>(width.value_cols()));
  for (std::size_t j = 0; j < slots.size(); ++j) {
    cache.read(args.layer, Cache::Part::values, slots[j], kv);
    for (std::size_t head = 0; head < heads; ++head) {
      const double* value = kv.data() + head / heads_per_kv * value_dim;
      double* sum = out.data() + head * value_dim;
      for (std::size_t i = 0; i < value_dim; ++i) sum[i] += p[head][j] * value[i];
    }
  }
  std::copy(out.begin(), out.end(), args.out.row(row));
}

}  // namespace talon::reference
