#include "backend/reference/reference_attention.h"

#include <algorithm>
#include <cmath>

#include "backend/host_layout.h"
#include "backend/reference/reference_math.h"
#include "core/error.h"

namespace talon::reference {
namespace {

/// One head: optional RMSNorm, then the rotation of pairs (i, i + d / 2).
void norm_and_rotate(float* head, int head_dim, const View& norm, float epsilon,
                     const float* rope) {
  std::vector<double> x(head, head + head_dim);
  if (norm) rms_norm(x, norm.data, epsilon);
  const int half = head_dim / 2;
  for (int i = 0; i < half; ++i) {
    const auto low = static_cast<std::size_t>(i);
    const auto high = static_cast<std::size_t>(i + half);
    const double cosine = rope[i];
    const double sine = rope[i + half];
    head[i] = static_cast<float>(x[low] * cosine - x[high] * sine);
    head[i + half] = static_cast<float>(x[high] * cosine + x[low] * sine);
  }
}

/// The slots a row sees, in logical order, first to last.
std::vector<Slot> visible_slots(const AttentionLayout& layout, const AttentionRow& row,
                                int window) {
  const int keys = row.visible;
  const int first = window > 0 ? std::max(0, keys - window) : 0;
  const auto pages = layout.pages[static_cast<std::size_t>(row.sequence)];
  std::vector<Slot> slots;
  for (int j = first; j < keys; ++j) {
    if (j < row.contiguous) {
      slots.push_back(pages[static_cast<std::size_t>(j / kPageRows)] * kPageRows + j % kPageRows);
    } else {
      slots.push_back(layout.extra[static_cast<std::size_t>(row.extra_begin + j - row.contiguous)]);
    }
  }
  return slots;
}

}  // namespace

void store_row(const AttentionArgs& args, int row) {
  auto& cache = static_cast<Cache&>(*args.cache);
  const AttentionLayout& layout = HostLayout::of(*args.layout);
  const AttentionRow& place = layout.rows[static_cast<std::size_t>(row)];
  const int head_dim = cache.shape.head_dim;
  const float* rope = args.rope.row(place.position);

  float* q = args.q.row(row);
  for (int column = 0; column < args.q.cols; column += head_dim) {
    norm_and_rotate(q + column, head_dim, args.q_norm, args.norm_epsilon, rope);
  }
  float* k = args.k.row(row);
  for (int column = 0; column < args.k.cols; column += head_dim) {
    norm_and_rotate(k + column, head_dim, args.k_norm, args.norm_epsilon, rope);
  }
  const auto width = static_cast<std::size_t>(cache.width());
  cache.write(args.layer, Cache::Part::keys, place.slot, {k, width});
  cache.write(args.layer, Cache::Part::values, place.slot, {args.v.row(row), width});
}

void attend_row(const AttentionArgs& args, int row) {
  const auto& cache = static_cast<const Cache&>(*args.cache);
  const AttentionLayout& layout = HostLayout::of(*args.layout);
  const AttentionRow& place = layout.rows[static_cast<std::size_t>(row)];
  const std::vector<Slot> slots = visible_slots(layout, place, args.window);
  const auto head_dim = static_cast<std::size_t>(cache.shape.head_dim);
  const auto width = static_cast<std::size_t>(cache.width());
  const std::size_t heads = static_cast<std::size_t>(args.q.cols) / head_dim;
  const std::size_t heads_per_kv = heads / static_cast<std::size_t>(cache.shape.kv_heads);

  const float* q_row = args.q.row(row);
  const std::vector<double> q(q_row, q_row + args.q.cols);
  std::vector<double> kv(width);
  std::vector<std::vector<double>> p(heads, std::vector<double>(slots.size()));
  for (std::size_t j = 0; j < slots.size(); ++j) {
    cache.read(args.layer, Cache::Part::keys, slots[j], kv);
    for (std::size_t head = 0; head < heads; ++head) {
      const double* key = kv.data() + head / heads_per_kv * head_dim;
      p[head][j] = args.scale * dot(q.data() + head * head_dim, key, head_dim);
    }
  }
  for (auto& scores : p) softmax(scores);

  std::vector<double> out(heads * head_dim, 0.0);
  for (std::size_t j = 0; j < slots.size(); ++j) {
    cache.read(args.layer, Cache::Part::values, slots[j], kv);
    for (std::size_t head = 0; head < heads; ++head) {
      const double* value = kv.data() + head / heads_per_kv * head_dim;
      for (std::size_t i = 0; i < head_dim; ++i) out[head * head_dim + i] += p[head][j] * value[i];
    }
  }
  std::copy(out.begin(), out.end(), args.out.row(row));
}

}  // namespace talon::reference
