#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_features.h"
#include "backend/cpu/test_matrices.h"
#include "backend/index_list.h"

namespace talon::cpu::cpu_attention_test {
namespace {

constexpr CpuKernels kAllKernels[] = {CpuKernels::portable, CpuKernels::avx2,
                                      CpuKernels::avx512_vnni, CpuKernels::avx512_bf16,
                                      CpuKernels::amx};

struct Shape {
  int heads = 6;
  int kv_heads = 2;
  int dim = 48;
  KvType type = KvType::f16;
  int window = 0;
};

/// A sequence of random keys, values and queries, position by position, and a cache whose pages are
/// out of order.
class Sequence {
 public:
  Sequence(Backend& backend, const Shape& shape, int positions)
      : backend_(backend),
        shape_(shape),
        positions_(positions),
        q_(random_rows(positions, shape.heads * shape.dim, 1)),
        k_(random_rows(positions, shape.kv_heads * shape.dim, 2)),
        v_(random_rows(positions, shape.kv_heads * shape.dim, 3)),
        pages_(static_cast<std::size_t>(positions / kPageRows + 3)) {
    for (float& value : q_) value *= 0.2F;  // so that a softmax weighs many keys
    std::iota(pages_.rbegin(), pages_.rend(), 0);
    cache_ = backend.allocate_kv(
        {2, shape.kv_heads, shape.dim, static_cast<int>(pages_.size()), shape.type});
    rope_ = backend.allocate(positions, shape.dim);
    std::vector<float> table;
    for (int p = 0; p < positions; ++p) {
      for (int i = 0; i < shape.dim; ++i) {
        const float angle = static_cast<float>(p) /
                            std::pow(100.0F, static_cast<float>(i % (shape.dim / 2)) / 8.0F);
        table.push_back(i < shape.dim / 2 ? std::cos(angle) : std::sin(angle));
      }
    }
    rope_table_ = table;
    backend.upload(table, rope_.view());
  }

  Slot slot(int position) const {
    return pages_[static_cast<std::size_t>(position / kPageRows)] * kPageRows +
           position % kPageRows;
  }

  /// Runs rows given by their position, their slot, and the slots of earlier positions that are not
  /// where logical order has them.
  struct Row {
    int position;
    Slot slot;
    int contiguous;
    std::vector<Slot> extra;
  };
  Row in_order(int position) const { return {position, slot(position), position + 1, {}}; }

  std::vector<float> run(const std::vector<Row>& rows) {
    AttentionLayout layout;
    layout.pages = {pages_};
    std::vector<float> q, k, v;
    const auto append = [](std::vector<float>& to, const std::vector<float>& from, int row,
                           int width) {
      to.insert(to.end(), from.begin() + row * width, from.begin() + (row + 1) * width);
    };
    for (const Row& row : rows) {
      layout.rows.push_back({0, row.position,
                             row.contiguous + static_cast<std::int32_t>(row.extra.size()), row.slot,
                             row.contiguous, static_cast<std::int32_t>(layout.extra.size())});
      layout.extra.insert(layout.extra.end(), row.extra.begin(), row.extra.end());
      append(q, q_, row.position, shape_.heads * shape_.dim);
      append(k, k_, row.position, shape_.kv_heads * shape_.dim);
      append(v, v_, row.position, shape_.kv_heads * shape_.dim);
    }
    const int n = static_cast<int>(rows.size());
    const auto buffer = [&](const std::vector<float>& values, int width) {
      auto result = backend_.allocate(n, width);
      backend_.upload(values, result.view());
      return result;
    };
    const auto q_buffer = buffer(q, shape_.heads * shape_.dim);
    const auto k_buffer = buffer(k, shape_.kv_heads * shape_.dim);
    const auto v_buffer = buffer(v, shape_.kv_heads * shape_.dim);
    const auto out = backend_.allocate(n, shape_.heads * shape_.dim);
    AttentionArgs args{};
    args.q = q_buffer.view();
    args.k = k_buffer.view();
    args.v = v_buffer.view();
    args.out = out.view();
    args.cache = cache_.get();
    args.layer = 1;
    const auto prepared = backend_.prepare(layout);
    args.layout = prepared.get();
    args.rope = rope_.view();
    args.scale = 1.0F / std::sqrt(static_cast<float>(shape_.dim));
    args.window = shape_.window;
    backend_.attention(args);
    std::vector<float> result(q.size());
    backend_.download(out.view(), result);
    return result;
  }

  /// All positions, `chunk` rows at a time.
  std::vector<float> run_all(int chunk) {
    std::vector<float> result;
    for (int first = 0; first < positions_; first += chunk) {
      std::vector<Row> rows;
      for (int p = first; p < std::min(positions_, first + chunk); ++p) rows.push_back(in_order(p));
      const auto part = run(rows);
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }

  /// Writes the keys and values of all positions. Each row sees itself alone, which takes no time.
  void fill() {
    std::vector<Row> rows;
    for (int p = 0; p < positions_; ++p) rows.push_back({p, slot(p), 0, {slot(p)}});
    run(rows);
  }

  std::vector<double> expected(int position) const {
    std::vector<double> result;
    const int first = shape_.window > 0 ? std::max(0, position + 1 - shape_.window) : 0;
    for (int head = 0; head < shape_.heads; ++head) {
      const int kv_head = head / (shape_.heads / shape_.kv_heads);
      const auto q = rotated(q_, position, shape_.heads, head);
      std::vector<double> weight;
      double sum = 0;
      for (int p = first; p <= position; ++p) {
        auto k = rotated(k_, p, shape_.kv_heads, kv_head);
        for (double& value : k) value = stored(value);
        const double dot = std::inner_product(q.begin(), q.end(), k.begin(), 0.0);
        weight.push_back(std::exp(dot / std::sqrt(shape_.dim)));
        sum += weight.back();
      }
      for (int d = 0; d < shape_.dim; ++d) {
        double value = 0;
        for (int p = first; p <= position; ++p) {
          const auto at =
              static_cast<std::size_t>((p * shape_.kv_heads + kv_head) * shape_.dim + d);
          value += weight[static_cast<std::size_t>(p - first)] / sum * stored(v_[at]);
        }
        result.push_back(value);
      }
    }
    return result;
  }

  KvStore& cache() { return *cache_; }

 private:
  double stored(double value) const {
    const auto single = static_cast<float>(value);
    if (shape_.type == KvType::bf16) return bf16_to_float(float_to_bf16(single));
    return shape_.type == KvType::f16 ? half_to_float(float_to_half(single)) : single;
  }

  std::vector<double> rotated(const std::vector<float>& values, int position, int heads,
                              int head) const {
    const float* x = &values[static_cast<std::size_t>((position * heads + head) * shape_.dim)];
    const float* cos_sin = &rope_table_[static_cast<std::size_t>(position * shape_.dim)];
    const int half = shape_.dim / 2;
    std::vector<double> result(static_cast<std::size_t>(shape_.dim));
    for (int i = 0; i < half; ++i) {
      const double c = cos_sin[i];
      const double s = cos_sin[i + half];
      result[static_cast<std::size_t>(i)] = x[i] * c - x[i + half] * s;
      result[static_cast<std::size_t>(i + half)] = x[i + half] * c + x[i] * s;
    }
    return result;
  }

  Backend& backend_;
  Shape shape_;
  int positions_;
  std::vector<float> q_, k_, v_;
  std::vector<PageId> pages_;
  std::vector<float> rope_table_;
  std::unique_ptr<KvStore> cache_;
  Buffer rope_;
};

class AttentionKernels : public testing::TestWithParam<CpuKernels> {
 protected:
  void SetUp() override {
    if (!supported(GetParam())) GTEST_SKIP() << "not on this processor";
    backend_ = make_cpu_backend({2, GetParam(), Activations::bits8, false});
  }
  std::unique_ptr<Backend> backend_;
};
INSTANTIATE_TEST_SUITE_P(All, AttentionKernels, testing::ValuesIn(kAllKernels),
                         [](const auto& of) { return std::string(name_of(of.param)); });

const Shape kShapes[] = {
    {6, 2, 48, KvType::f16, 0},    {4, 4, 64, KvType::f32, 0},   {5, 1, 8, KvType::f16, 0},
    {8, 2, 128, KvType::f16, 100}, {9, 3, 64, KvType::f16, 40},  {2, 1, 80, KvType::f32, 0},
    {6, 2, 48, KvType::bf16, 0},   {9, 3, 64, KvType::bf16, 37}, {5, 1, 8, KvType::bf16, 0}};

double tolerance(KvType type) {
  return type == KvType::f32 ? 2e-5 : type == KvType::f16 ? 1e-3 : 4e-2;  // values go to 7
}

TEST_P(AttentionKernels, GivesTheSoftmaxWeightedValues) {
  for (const Shape& shape : kShapes) {
    constexpr int kPositions = 300;
    Sequence sequence(*backend_, shape, kPositions);
    const auto got = sequence.run_all(kPositions);
    const auto width = static_cast<std::size_t>(shape.heads * shape.dim);
    for (const int position : {0, 1, 15, 63, 64, 127, 128, 255, 299}) {
      const auto want = sequence.expected(position);
      for (std::size_t i = 0; i < width; ++i) {
        ASSERT_NEAR(got[static_cast<std::size_t>(position) * width + i], want[i],
                    tolerance(shape.type))
            << position << " " << i << " dim " << shape.dim;
      }
    }
  }
}

TEST_P(AttentionKernels, ARowsBytesDoNotDependOnChunksNorThreadsNorKernels) {
  const auto one_thread = make_cpu_backend({1, GetParam(), Activations::bits8, false});
  const auto portable = make_cpu_backend({2, CpuKernels::portable, Activations::bits8, false});
  for (const Shape& shape : kShapes) {
    const auto together = Sequence(*backend_, shape, 280).run_all(280);
    for (const int chunk : {1, 7, 64}) {
      EXPECT_EQ(Sequence(*backend_, shape, 280).run_all(chunk), together) << chunk;
    }
    EXPECT_EQ(Sequence(*one_thread, shape, 280).run_all(280), together);
    EXPECT_EQ(Sequence(*one_thread, shape, 280).run_all(1), together);
    EXPECT_EQ(Sequence(*portable, shape, 280).run_all(280), together);
  }
}

TEST_P(AttentionKernels, LongContextsGiveTheSameBytesWhereverTheirBlocksAreCut) {
  constexpr int kPositions = 1200;
  constexpr int kRows = 13;
  const Shape shapes[] = {{3, 1, 64, KvType::f16, 0},
                          {4, 1, 48, KvType::f32, 0},
                          {6, 2, 16, KvType::f16, 1100},
                          {3, 1, 64, KvType::bf16, 0},
                          {6, 2, 16, KvType::bf16, 1099}};
  for (const Shape& shape : shapes) {
    Sequence sequence(*backend_, shape, kPositions);
    const auto want = sequence.run_all(64);
    const auto width = static_cast<std::size_t>(shape.heads * shape.dim);
    const auto exact = sequence.expected(kPositions - 1);
    for (std::size_t i = 0; i < width; ++i) {
      ASSERT_NEAR(want[want.size() - width + i], exact[i], tolerance(shape.type));
    }
    std::vector<Sequence::Row> rows;
    for (int p = kPositions - kRows; p < kPositions; ++p) rows.push_back(sequence.in_order(p));
    for (const int threads : {1, 5}) {
      const auto backend = make_cpu_backend({threads, GetParam(), Activations::bits8, false});
      Sequence again(*backend, shape, kPositions);
      again.fill();
      const auto got = again.run(rows);
      EXPECT_TRUE(std::equal(got.rbegin(), got.rend(), want.rbegin())) << threads;
      const auto alone = again.run({rows.back()});
      EXPECT_TRUE(std::equal(alone.rbegin(), alone.rend(), want.rbegin())) << threads;
    }
  }
}

TEST_P(AttentionKernels, ATreeNodeGetsTheBytesOfTheSameTokensInAChain) {
  for (const Shape& shape : kShapes) {
    for (const int committed : {5, 120, 200}) {
      constexpr int kPath = 20;
      const int positions = committed + kPath;
      const auto chain = Sequence(*backend_, shape, positions).run_all(64);
      Sequence sequence(*backend_, shape, positions);
      std::vector<Sequence::Row> rows;
      for (int p = 0; p < committed; ++p) rows.push_back(sequence.in_order(p));
      sequence.run(rows);
      // The path's nodes lie in every other slot, nodes of another branch (with other keys) between
      // them.
      rows.clear();
      std::vector<Slot> path;
      for (int i = 0; i < kPath; ++i) {
        path.push_back(sequence.slot(committed + 2 * i));
        rows.push_back({committed + i, path.back(), committed, path});
        const Slot other = sequence.slot(committed + 2 * i + 1);
        rows.push_back({committed / 2, other, committed / 2, {other}});
      }
      const auto tree = sequence.run(rows);
      const auto width = static_cast<std::ptrdiff_t>(shape.heads * shape.dim);
      for (int i = 0; i < kPath; ++i) {
        EXPECT_TRUE(std::equal(tree.begin() + 2 * i * width, tree.begin() + (2 * i + 1) * width,
                               chain.begin() + (committed + i) * width))
            << committed << " node " << i << " dim " << shape.dim;
      }
    }
  }
}

TEST_P(AttentionKernels, RowsThatAreNotVisibleMayHoldAnything) {
  const Shape shape;
  Sequence clean(*backend_, shape, 40);
  const auto want = clean.run_all(40);
  // Position 39 of the second sequence lies in the same 16 slots and is not a number.
  Sequence sequence(*backend_, shape, 40);
  std::vector<Sequence::Row> rows;
  for (int p = 0; p < 40; ++p) rows.push_back(sequence.in_order(p));
  sequence.run(rows);
  rows.resize(36);
  const auto again = sequence.run(rows);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), want.begin()));
}

TEST_P(AttentionKernels, CopiedCacheRowsServeLikeTheOriginals) {
  const Shape shape;
  Sequence direct(*backend_, shape, 80);
  const auto want = direct.run_all(1);
  // Rows 70 and 71 are written to each other's slots and swapped back.
  Sequence sequence(*backend_, shape, 80);
  std::vector<Sequence::Row> rows;
  for (int p = 0; p < 70; ++p) rows.push_back(sequence.in_order(p));
  sequence.run(rows);
  const Slot a = sequence.slot(70);
  const Slot b = sequence.slot(71);
  sequence.run({{70, b, 70, {b}}, {71, a, 70, {b, a}}});
  IndexList from(*backend_), to(*backend_);
  const Slot there[] = {a, b}, here[] = {b, a};
  backend_->copy_kv(sequence.cache(), from.put(there), to.put(here));
  rows.clear();
  for (int p = 72; p < 80; ++p) rows.push_back(sequence.in_order(p));
  const auto got = sequence.run(rows);
  const std::ptrdiff_t width = shape.heads * shape.dim;
  EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin() + 72 * width));
}

}  // namespace
}  // namespace talon::cpu::cpu_attention_test
