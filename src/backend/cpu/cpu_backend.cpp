#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_attention.h"
#include "backend/cpu/cpu_cache.h"
#include "backend/cpu/cpu_features.h"
#include "backend/cpu/cpu_linear.h"
#include "backend/cpu/cpu_race.h"
#include "backend/cpu/experts/cpu_experts.h"
#include "backend/cpu/huge_memory.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/packed_weight.h"
#include "backend/cpu/recurrent/cpu_recurrent.h"
#include "backend/cpu/scratch.h"
#include "backend/host_layout.h"
#include "backend/route_row.h"
#include "core/error.h"
#include "core/machine/processors.h"
#include "core/processor_caches.h"
#include "core/thread_pool.h"
#include "core/types.h"

namespace talon {
namespace cpu {
namespace {

constexpr std::size_t kWorthSharing = std::size_t{1}
                                      << 15;  // values; fewer are done by the caller alone
constexpr std::size_t kLeastTurn = 1024;      // values of short rows, that a worker takes at once

constexpr int kRouteCost = 16;  // of a score, in values of other operations

std::span<std::int32_t> values_of(const Indices& indices) {
  return {indices.data, static_cast<std::size_t>(indices.count)};
}

std::span<float> values_of(const View& x, int row) {
  return {x.row(row), static_cast<std::size_t>(x.cols)};
}

void expects_same_shape(const View& a, const View& b) {
  expects(a.rows == b.rows && a.cols == b.cols, "both matrices have the same shape");
}

/// Zeroed; large ones in huge pages.
class Memory : public DeviceMemory {
 public:
  explicit Memory(std::size_t bytes) {
    if (bytes >= kHugeBytes) {
      huge_ = std::make_unique<HugeBlock>(bytes);
    } else {
      std::memset(small_.reserve<std::byte>(bytes), 0, bytes);
    }
  }
  std::byte* get() { return huge_ ? huge_->data() : small_.reserve<std::byte>(0); }

 private:
  static constexpr std::size_t kHugeBytes = std::size_t{4} << 20;
  std::unique_ptr<HugeBlock> huge_;
  Scratch small_;
};

std::string_view words_for(Activations activations) {
  constexpr std::string_view kWords[] = {"8-bit", "mixed 8- and 16-bit", "16-bit"};
  return kWords[static_cast<int>(activations)];
}

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : kernels_(choose_kernels(options.kernels)),
        pool_(options.threads > 0 ? options.threads : worker_count(0), options.pin),
        activations_(options.activations),
        linear_(kernels_, pool_, options.activations),
        experts_(kernels_, pool_, linear_),
        attention_(choose_attention_kernels(options.kernels), pool_),
        race_(pool_),
        recurrent_(kernels_, pool_) {
    if (options.adapt) pool_.adapt();
  }

  std::string_view name() const override { return "cpu"; }

  std::string description() const override {
    return fmt::format(
        "{} kernels, {} threads, {} activations, L2 {} KiB, L3 {} KiB, {} MiB in huge pages",
        kernels_.name, pool_.threads(), words_for(activations_), cache_bytes(2) / 1024,
        cache_bytes(3) / 1024, huge_page_bytes() >> 20);
  }
  int threads() const override { return pool_.threads(); }
  bool is_disturbed() const override { return pool_.is_disturbed(); }

  BackendTraits traits() const override {
    const bool is_fine = activations_ == Activations::bits16;
    return {.cache = is_fine ? KvType::f16 : KvType::bf16};
  }

  Buffer allocate(int rows, int cols) override {
    expects(rows >= 0 && cols >= 0, "a buffer has a size");
    const std::size_t values = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
    auto memory = std::make_unique<Memory>(std::max<std::size_t>(values * sizeof(float), 1));
    auto* data = reinterpret_cast<float*>(memory->get());
    return {{data, rows, cols, cols}, std::move(memory)};
  }
  IndexBuffer allocate_indices(int count) override {
    expects(count >= 0, "a list has a size");
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(std::int32_t);
    auto memory = std::make_unique<Memory>(std::max<std::size_t>(bytes, 1));
    auto* data = reinterpret_cast<std::int32_t*>(memory->get());
    return {{data, count}, std::move(memory)};
  }
  std::unique_ptr<Weight> load_weight(const StoredMatrix& matrix, WeightLayout layout) override {
    return pack(matrix, layout, arena_, pool_);
  }
  std::unique_ptr<KvStore> allocate_kv(const KvShape& shape) override {
    expects(shape.layers > 0 && shape.pages > 0, "a cache has a size");
    for (int layer = 0; layer < shape.layers; ++layer) {
      const KvWidth width = shape.width(layer);
      expects(width.kv_heads > 0 && width.key_dim > 0 && width.value_dim > 0, "a layer has a size");
    }
    return std::make_unique<Cache>(shape);
  }

  void upload(std::span<const float> from, const View& to) override {
    expects(from.size() == static_cast<std::size_t>(to.rows) * static_cast<std::size_t>(to.cols),
            "upload(): as many values as the matrix has");
    for (int row = 0; row < to.rows; ++row) {
      std::copy_n(from.data() + static_cast<std::ptrdiff_t>(row) * to.cols, to.cols, to.row(row));
    }
  }
  void upload(std::span<const std::int32_t> from, const Indices& to) override {
    expects(from.size() == values_of(to).size(), "upload(): as many numbers as the list has");
    std::ranges::copy(from, to.data);
  }
  Fence download_async(const View& from, std::span<float> to) override {
    expects(to.size() == static_cast<std::size_t>(from.rows) * static_cast<std::size_t>(from.cols),
            "download(): room for as many values as the matrix has");
    for (int row = 0; row < from.rows; ++row) {
      std::copy_n(from.row(row), from.cols,
                  to.data() + static_cast<std::ptrdiff_t>(row) * from.cols);
    }
    return {};
  }
  Fence download_async(const Indices& from, std::span<std::int32_t> to) override {
    expects(to.size() == values_of(from).size(), "download(): room for as many numbers");
    std::ranges::copy(values_of(from), to.begin());
    return {};
  }

  void embed(const Weight& table, const Indices& tokens, const View& out) override {
    expects(out.rows == tokens.count && out.cols == table.cols,
            "embed(): the output is [tokens, columns of the table]");
    for (const TokenId token : values_of(tokens)) {
      expects(token >= 0 && token < table.rows, "embed(): a token of the table");
    }
    const auto& weight = static_cast<const PackedWeight&>(table);
    for_each_row(out.rows, out.cols, [&](int row) {
      unpack_row(weight, tokens.data[row], {out.row(row), static_cast<std::size_t>(out.cols)});
    });
  }
  void linear(const LinearArgs& args) override { linear_.run(args); }
  void linear_all(std::span<const LinearArgs> calls) override {
    if (!calls.empty()) linear_.run_all(calls);
  }
  void route(const RouteArgs& args) override {
    check_route(args);
    for_each_row(args.scores.rows, kRouteCost * args.scores.cols,
                 [&](int row) { route_row(args, row); });
  }
  void experts(const ExpertArgs& args) override { experts_.run(args); }
  void count_first_uses(const Indices& ids, int experts, const Indices& counts) override {
    add_first_uses(ids, experts, counts);
  }

  void rms_norm(const View& x, const View& weight, float epsilon, const View& out) override {
    expects_same_shape(x, out);
    expects(weight.cols == x.cols, "rms_norm(): a weight per column");
    for_each_row(x.rows, x.cols, [&](int row) {
      kernels_.rms_norm(x.row(row), weight.data, epsilon, x.cols, out.row(row));
    });
  }
  void layer_norm(const View& x, const View& weight, const View& bias, float epsilon,
                  const View& out) override {
    expects_same_shape(x, out);
    expects(weight.cols == x.cols && (!bias || bias.cols == x.cols),
            "layer_norm(): a weight and a bias per column");
    for_each_row(x.rows, x.cols, [&](int row) {
      kernels_.layer_norm(x.row(row), weight.data, bias.data, epsilon, x.cols, out.row(row));
    });
  }
  void add_scaled(const View& a, const View& b, float factor, const View& out) override {
    expects_same_shape(a, b);
    expects_same_shape(a, out);
    for_each_row(a.rows, a.cols, [&](int row) {
      kernels_.add_scaled(a.row(row), b.row(row), factor, a.cols, out.row(row));
    });
  }
  void scale(const View& x, float factor) override {
    for_each_row(x.rows, x.cols, [&](int row) { scale_row(x, row, factor); });
  }
  void scale_rows(const View& x, const View& factors) override {
    expects(factors.rows == x.rows && factors.cols == 1, "scale_rows(): a factor per row");
    for_each_row(x.rows, x.cols, [&](int row) { scale_row(x, row, *factors.row(row)); });
  }
  void soft_cap(const View& x, float cap) override {
    expects(cap > 0, "soft_cap(): a positive cap");
    for_each_row(x.rows, x.cols,
                 [&](int row) { kernels_.soft_cap(x.row(row), cap, x.cols, x.row(row)); });
  }
  void add(const View& a, const View& b, const View& out) override {
    expects_same_shape(a, b);
    expects_same_shape(a, out);
    for_each_row(a.rows, a.cols,
                 [&](int row) { kernels_.add(a.row(row), b.row(row), a.cols, out.row(row)); });
  }
  void activate(const View& x, Activation function) override {
    for_each_row(x.rows, x.cols, [&](int row) {
      if (function == Activation::silu) return kernels_.silu(x.row(row), x.cols, x.row(row));
      kernels_.sigmoid(x.row(row), x.cols, x.row(row));
    });
  }
  void copy(const View& from, const View& to) override {
    expects_same_shape(from, to);
    for_each_row(from.rows, from.cols, [&](int row) { copy_row(from, row, to, row); });
  }
  void gather_rows(const View& from, const Indices& rows, const View& to) override {
    expects(to.rows == rows.count && from.cols == to.cols,
            "gather_rows(): a target row for every index");
    for_each_row(to.rows, to.cols, [&](int row) { copy_row(from, rows.data[row], to, row); });
  }
  void scatter_rows(const View& from, const Indices& rows, const View& to) override {
    expects(from.rows == rows.count && from.cols == to.cols,
            "scatter_rows(): an index for every source row");
    for (int row = 0; row < from.rows; ++row) {
      copy_row(from, row, to, rows.data[row]);
    }
  }

  std::unique_ptr<PreparedLayout> prepare(const AttentionLayout& layout) override {
    return std::make_unique<HostLayout>(layout);
  }
  void attention(const AttentionArgs& args) override { attention_.run(args); }
  void recurrent(const RecurrentArgs& args) override { recurrent_.run(args); }
  void copy_kv(KvStore& cache, const Indices& from, const Indices& to) override {
    if (from.count > 0) {
      static_cast<Cache&>(cache).copy_slots(values_of(from), values_of(to), pool_);
    }
  }

  void softmax(const View& logits, float temperature, const View& out) override {
    expects_same_shape(logits, out);
    expects(temperature > 0, "softmax(): a positive temperature");
    for_each_row(logits.rows, logits.cols, [&](int row) {
      kernels_.softmax(logits.row(row), temperature, logits.cols, out.row(row));
    });
  }
  void argmax(const View& x, const Indices& best, const View& largest) override {
    expects(best.count == x.rows && largest.rows == x.rows && largest.cols == 1,
            "argmax(): room for every row");
    for_each_row(x.rows, x.cols, [&](int row) {
      best.data[row] = kernels_.argmax(x.row(row), x.cols, largest.row(row));
    });
  }
  void race(const View& logits, std::span<const RaceDraw> draws, const Indices& winners,
            const View& largest) override {
    expects(std::ssize(draws) == logits.rows && winners.count == logits.rows &&
                largest.rows == logits.rows && largest.cols == 1,
            "race(): a draw and room for every row");
    for (int row = 0; row < logits.rows; ++row) {
      winners.data[row] = race_.run(values_of(logits, row), draws[static_cast<std::size_t>(row)],
                                    *largest.row(row));
    }
  }
  void gumbel(std::span<const GumbelNoise> noise, const Indices& tokens, const View& out) override {
    expects(std::ssize(noise) == out.rows && (tokens.count == 0 || tokens.count == out.cols),
            "gumbel(): noise for every row, a token for every column");
    for (int row = 0; row < out.rows; ++row) {
      race_.fill(noise[static_cast<std::size_t>(row)], values_of(tokens), values_of(out, row));
    }
  }
  void top_k(const View& x, int k, const View& values, const Indices& indices) override {
    expects(k >= 0 && k <= x.cols, "top_k(): at most as many as there are columns");
    expects(values.rows == x.rows && values.cols == k && indices.count == x.rows * k,
            "top_k(): room for k values of every row");
    const auto count = static_cast<std::size_t>(k);
    for_each_row(x.rows, x.cols, [&](int row) {
      top_of_row(x.row(row), x.cols, {values.row(row), count},
                 values_of(indices.range(row * k, k)));
    });
  }

  void replay(const ReplayKey&, const std::function<void()>& body) override { body(); }
  void synchronize() override {}

 private:
  template <typename Body>
  void for_each_row(int rows, int cols, Body body) {
    const auto count = static_cast<std::size_t>(rows);
    if (rows < 2 || count * static_cast<std::size_t>(cols) < kWorthSharing) {
      for (int row = 0; row < rows; ++row) body(row);
      return;
    }
    const std::size_t together =
        std::max<std::size_t>(1, kLeastTurn / static_cast<std::size_t>(cols));
    pool_.run([&](int) {
      for (std::size_t first; (first = pool_.next(0, together)) < count;) {
        for (std::size_t row = first; row < std::min(first + together, count); ++row)
          body(static_cast<int>(row));
      }
    });
  }

  static void scale_row(const View& x, int row, float factor) {
    float* values = x.row(row);
    for (int col = 0; col < x.cols; ++col) values[col] *= factor;
  }
  static void copy_row(const View& from, int from_row, const View& to, int to_row) {
    expects(from_row >= 0 && from_row < from.rows && to_row >= 0 && to_row < to.rows,
            "a row of the matrix");
    std::copy_n(from.row(from_row), from.cols, to.row(to_row));
  }

  /// Keeps the k best so far in order; most values are below the least of them and are passed over
  /// 16 at a time. NaN counts as the smallest value.
  void top_of_row(const float* x, int n, std::span<float> values,
                  std::span<TokenId> indices) const {
    if (values.empty()) return;
    std::size_t kept = 0;
    const auto insert = [&](int index) {
      const float value = x[index] == x[index] ? x[index] : -std::numeric_limits<float>::infinity();
      std::size_t place = kept < values.size() ? kept++ : kept - 1;
      for (; place > 0 && values[place - 1] < value; --place) {
        values[place] = values[place - 1];
        indices[place] = indices[place - 1];
      }
      values[place] = value;
      indices[place] = index;
    };
    int i = 0;
    for (; kept < values.size(); ++i) insert(i);
    while ((i = kernels_.find_above(x, i, n, values.back())) < n) insert(i++);
  }

  const Kernels& kernels_;
  ThreadPool pool_;
  Activations activations_;
  HugeArena arena_;
  Linear linear_;
  Experts experts_;
  Attention attention_;
  Race race_;
  Recurrent recurrent_;
};

}  // namespace
}  // namespace cpu

std::string_view name_of(Activations activations) {
  constexpr std::string_view kNames[] = {"8", "mixed", "16"};
  return kNames[static_cast<int>(activations)];
}

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<cpu::CpuBackend>(options);
}

}  // namespace talon
