// What attention takes in a layer of SmolLM2's shape: microseconds, over layers whose keys and
// values are not in the first caches. Arguments: rows, cached tokens, whether the rows are a tree
// (a root and its children) or a chain, threads.
#include <benchmark/benchmark.h>

#include <numeric>
#include <random>

#include "backend/cpu/cpu.h"

namespace talon {
namespace {

constexpr int kLayers = 30, kHeads = 9, kKvHeads = 3, kDim = 64;

class Layers {
 public:
  Layers(int rows, int context, bool tree, int threads)
      : backend_(make_cpu_backend(with(threads))),
        q_(random(rows, kHeads * kDim)),
        k_(random(rows, kKvHeads * kDim)),
        v_(random(rows, kKvHeads * kDim)),
        out_(backend_->allocate(rows, kHeads * kDim)),
        rope_(random(context + rows, kDim)) {
    const int pages = (context + rows + kPageRows - 1) / kPageRows;
    pages_.resize(static_cast<std::size_t>(pages));
    std::iota(pages_.begin(), pages_.end(), 0);
    cache_ = backend_->allocate_kv({kLayers, kKvHeads, kDim, pages, KvType::bf16});
    layout_.pages = {pages_};
    for (int row = 0; row < rows; ++row) {
      const bool listed = tree && row > 1;
      AttentionRow& place = layout_.rows.emplace_back();
      place.position = context + (tree ? std::min(row, 1) : row);
      place.visible = place.position + 1;
      place.slot = context + row;
      place.contiguous = listed ? context + 1 : place.visible;
      place.extra_begin = static_cast<int>(layout_.extra.size());
      if (listed) layout_.extra.push_back(place.slot);
    }
    prepared_ = backend_->prepare(layout_);
  }

  void run() {
    for (int layer = 0; layer < kLayers; ++layer) {
      backend_->attention({.q = q_.view(),
                           .k = k_.view(),
                           .v = v_.view(),
                           .out = out_.view(),
                           .cache = cache_.get(),
                           .layer = layer,
                           .layout = prepared_.get(),
                           .rope = rope_.view(),
                           .q_norm = {},
                           .k_norm = {},
                           .scale = 0.125F});
    }
  }

 private:
  static CpuOptions with(int threads) {
    CpuOptions options;
    options.threads = threads;
    options.adapt = false;
    return options;
  }
  Buffer random(int rows, int cols) {
    Buffer buffer = backend_->allocate(rows, cols);
    std::vector<float> values(static_cast<std::size_t>(rows * cols));
    for (float& value : values) value = uniform_(random_);
    backend_->upload(values, buffer.view());
    return buffer;
  }

  std::unique_ptr<Backend> backend_;
  std::mt19937 random_{1};
  std::uniform_real_distribution<float> uniform_{-1, 1};
  Buffer q_, k_, v_, out_, rope_;
  std::vector<PageId> pages_;
  std::unique_ptr<KvStore> cache_;
  AttentionLayout layout_;
  std::unique_ptr<PreparedLayout> prepared_;
};

void attention(benchmark::State& state) {
  Layers layers(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                state.range(2) != 0, static_cast<int>(state.range(3)));
  for (auto _ : state) layers.run();
  state.counters["us_a_layer"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kLayers * 1e-6,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(attention)
    ->ArgsProduct({{1, 2, 4, 8, 16}, {16, 256, 2000}, {0, 1}, {1, 2}})
    ->UseRealTime();

}  // namespace
}  // namespace talon
