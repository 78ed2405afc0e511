#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>

#include "backend/attention_shapes.h"
#include "backend/host_layout.h"
#include "backend/reference/reference.h"
#include "backend/reference/reference_attention.h"
#include "backend/reference/reference_math.h"
#include "backend/reference/reference_memory.h"
#include "backend/reference/reference_recurrent.h"
#include "backend/route_row.h"
#include "core/error.h"
#include "core/thread_pool.h"
#include "core/types.h"

namespace talon {
namespace {

using reference::Cache;
using reference::DenseWeight;

constexpr int kOutputTile = 16;  // outputs that share one pass over the input rows

std::span<std::int32_t> values_of(const Indices& indices) {
  return {indices.data, static_cast<std::size_t>(indices.count)};
}

bool same_shape(const View& a, const View& b) { return a.rows == b.rows && a.cols == b.cols; }

class ReferenceBackend : public Backend {
 public:
  explicit ReferenceBackend(int threads) : pool_(threads, /*pin=*/false) {}

  std::string_view name() const override { return "reference"; }
  std::string description() const override {
    return fmt::format("float32 weights, sums in float64, {} threads", pool_.threads());
  }
  int threads() const override { return pool_.threads(); }

  BackendTraits traits() const override { return {}; }

  Buffer allocate(int rows, int cols) override { return reference::allocate(rows, cols); }
  IndexBuffer allocate_indices(int count) override { return reference::allocate_indices(count); }
  std::unique_ptr<Weight> load_weight(const StoredMatrix& matrix, WeightLayout layout) override;
  std::unique_ptr<KvStore> allocate_kv(const KvShape& shape) override {
    return std::make_unique<Cache>(shape);
  }

  void upload(std::span<const float> from, const View& to) override;
  void upload(std::span<const std::int32_t> from, const Indices& to) override;
  Fence download_async(const View& from, std::span<float> to) override;
  Fence download_async(const Indices& from, std::span<std::int32_t> to) override;

  void embed(const Weight& table, const Indices& tokens, const View& out) override;
  void linear(const LinearArgs& args) override;
  void linear_all(std::span<const LinearArgs> calls) override {
    for (const LinearArgs& args : calls) linear(args);
  }
  void route(const RouteArgs& args) override;
  void experts(const ExpertArgs& args) override;
  void count_first_uses(const Indices& ids, int experts, const Indices& counts) override {
    add_first_uses(ids, experts, counts);
  }
  void rms_norm(const View& x, const View& weight, float epsilon, const View& out) override;
  void layer_norm(const View& x, const View& weight, const View& bias, float epsilon,
                  const View& out) override;
  void add(const View& a, const View& b, const View& out) override { add_scaled(a, b, 1.0F, out); }
  void add_scaled(const View& a, const View& b, float factor, const View& out) override;
  void scale(const View& x, float factor) override;
  void scale_rows(const View& x, const View& factors) override;
  void soft_cap(const View& x, float cap) override;
  void activate(const View& x, Activation function) override;
  void copy(const View& from, const View& to) override;
  void gather_rows(const View& from, const Indices& rows, const View& to) override;
  void scatter_rows(const View& from, const Indices& rows, const View& to) override;

  std::unique_ptr<PreparedLayout> prepare(const AttentionLayout& layout) override {
    return std::make_unique<HostLayout>(layout);
  }
  void attention(const AttentionArgs& args) override;
  void recurrent(const RecurrentArgs& args) override;
  void copy_kv(KvStore& cache, const Indices& from, const Indices& to) override;

  void softmax(const View& logits, float temperature, const View& out) override;
  void argmax(const View& x, const Indices& best, const View& largest) override;
  void race(const View& logits, std::span<const RaceDraw> draws, const Indices& winners,
            const View& largest) override;
  void gumbel(std::span<const GumbelNoise> noise, const Indices& tokens, const View& out) override;
  void top_k(const View& x, int k, const View& values, const Indices& indices) override;

  void replay(const ReplayKey&, const std::function<void()>& body) override { body(); }

  void synchronize() override {}

 private:
  template <typename Body>
  void for_each(int count, Body&& body);
  void transform_input(const LinearArgs& args, int cols);
  void project_tile(const Projection& output, int first, int last, int input_rows);

  ThreadPool pool_;
  std::vector<double> input_;  // of linear(), transformed: [rows, cols]
};

/// body(i) for i in [0, count), each on one thread.
template <typename Body>
void ReferenceBackend::for_each(int count, Body&& body) {
  pool_.run([&](int) {
    for (int i = 0; (i = static_cast<int>(pool_.next(0))) < count;) body(i);
  });
}

std::unique_ptr<Weight> ReferenceBackend::load_weight(const StoredMatrix& matrix, WeightLayout) {
  auto weight = std::make_unique<DenseWeight>();
  weight->rows = matrix.rows;
  weight->cols = matrix.cols;
  weight->layout = "float32";
  const auto cols = static_cast<std::size_t>(matrix.cols);
  const std::size_t count = static_cast<std::size_t>(matrix.rows) * cols;
  weight->bytes = count * sizeof(float);
  const BlockShape block = block_shape(matrix.type);
  expects(cols % block.elements == 0, "a row is whole blocks");
  const std::size_t row_bytes = cols / block.elements * block.bytes;
  expects(!matrix.row_order.empty() ||
              matrix.bytes.size() == row_bytes * static_cast<std::size_t>(matrix.rows),
          "a stored matrix has the bytes of its shape");
  try {
    weight->values.resize(count);
  } catch (const std::bad_alloc&) {
    fail("load \"{}\": out of memory ({} bytes)", matrix.name, weight->bytes);
  }
  for_each(matrix.rows, [&](int row) {
    const auto to = static_cast<std::size_t>(row);
    const auto from =
        matrix.row_order.empty() ? to : static_cast<std::size_t>(matrix.row_order[to]);
    expects((from + 1) * row_bytes <= matrix.bytes.size(), "a row lies in the stored matrix");
    dequantize(matrix.type, matrix.bytes.subspan(from * row_bytes, row_bytes),
               {weight->values.data() + to * cols, cols});
  });
  return weight;
}

void ReferenceBackend::upload(std::span<const float> from, const View& to) {
  expects(from.size() == static_cast<std::size_t>(to.rows) * static_cast<std::size_t>(to.cols));
  for (int row = 0; row < to.rows; ++row) {
    std::copy_n(from.data() + static_cast<std::ptrdiff_t>(row) * to.cols, to.cols, to.row(row));
  }
}

Fence ReferenceBackend::download_async(const View& from, std::span<float> to) {
  expects(to.size() == static_cast<std::size_t>(from.rows) * static_cast<std::size_t>(from.cols));
  for (int row = 0; row < from.rows; ++row) {
    std::copy_n(from.row(row), from.cols, to.data() + static_cast<std::ptrdiff_t>(row) * from.cols);
  }
  return {};
}

void ReferenceBackend::upload(std::span<const std::int32_t> from, const Indices& to) {
  expects(from.size() == values_of(to).size());
  std::ranges::copy(from, to.data);
}

Fence ReferenceBackend::download_async(const Indices& from, std::span<std::int32_t> to) {
  expects(to.size() == values_of(from).size());
  std::ranges::copy(values_of(from), to.begin());
  return {};
}

void ReferenceBackend::embed(const Weight& table, const Indices& tokens, const View& out) {
  const auto& weight = static_cast<const DenseWeight&>(table);
  expects(out.cols == table.cols && out.rows == tokens.count);
  for (int row = 0; row < out.rows; ++row) {
    const TokenId token = tokens.data[row];
    expects(token >= 0 && token < table.rows, "a token of the table");
    std::copy_n(weight.row(token), table.cols, out.row(row));
  }
}

void ReferenceBackend::linear(const LinearArgs& args) {
  expects(!args.outputs.empty(), "linear has an output");
  const int cols = args.outputs[0].weight->cols;
  transform_input(args, cols);
  for (const Projection& output : args.outputs) {
    expects(output.weight->cols == cols, "projections of one call read the same input");
    expects(output.out.rows == args.input.rows && output.out.cols == output.weight->rows);
    expects(!output.bias || output.bias.cols == output.weight->rows);
    const int tiles = (output.weight->rows + kOutputTile - 1) / kOutputTile;
    for_each(tiles, [&](int tile) {
      const int first = tile * kOutputTile;
      const int last = std::min(first + kOutputTile, output.weight->rows);
      project_tile(output, first, last, args.input.rows);
    });
  }
}

void ReferenceBackend::transform_input(const LinearArgs& args, int cols) {
  const bool gated = is_gate(args.transform);
  expects(args.input.cols == (gated ? 2 * cols : cols), "the input fits the weight");
  const auto width = static_cast<std::size_t>(cols);
  input_.resize(static_cast<std::size_t>(args.input.rows) * width);
  for_each(args.input.rows, [&](int row) {
    const float* x = args.input.row(row);
    const std::span<double> to(input_.data() + static_cast<std::size_t>(row) * width, width);
    for (std::size_t i = 0; i < width; ++i) {
      to[i] = reference::transform(args, x[i], gated ? x[i + width] : 0.0F);
    }
    if (args.transform == InputTransform::rms_norm) {
      reference::rms_norm(to, args.norm.data, args.norm_epsilon);
    } else if (args.transform == InputTransform::layer_norm) {
      reference::layer_norm(to, args.norm.data, args.norm_bias.data, args.norm_epsilon);
    }
  });
}

void ReferenceBackend::route(const RouteArgs& args) {
  check_route(args);
  for_each(args.scores.rows, [&](int row) { route_row(args, row); });
}

/// Row after row, expert after expert.
void ReferenceBackend::experts(const ExpertArgs& args) {
  check_experts(args);
  const int k = args.weights.cols;
  for_each(args.input.rows, [&](int row) {
    std::vector<double> sum(static_cast<std::size_t>(args.out.cols), 0.0);
    for (int i = 0; i < k; ++i) {
      const int id = args.ids.data[row * k + i];
      const double weight = args.weights.row(row)[i];
      std::vector<double> x(args.input.row(row), args.input.row(row) + args.input.cols);
      if (args.weigh_input) {
        for (double& value : x) value *= weight;
      }
      const ExpertWeights& expert = args.experts[static_cast<std::size_t>(id)];
      const auto multiply = [&](const Weight* matrix, const View& bias) {
        return reference::multiply(static_cast<const DenseWeight&>(*matrix), x,
                                   bias ? bias.row(id) : nullptr);
      };
      const std::vector<double> up = multiply(expert.up, args.up_bias);
      const std::vector<double> gate = expert.gate ? multiply(expert.gate, args.gate_bias) : up;
      x.resize(gate.size());
      for (std::size_t j = 0; j < x.size(); ++j) {
        x[j] = reference::transform(args.gate, gate[j], up[j]);
      }
      const std::vector<double> out = multiply(expert.down, args.down_bias);
      for (std::size_t j = 0; j < sum.size(); ++j) {
        sum[j] += args.weigh_input ? out[j] : weight * out[j];
      }
    }
    std::copy(sum.begin(), sum.end(), args.out.row(row));
  });
}

void ReferenceBackend::project_tile(const Projection& output, int first, int last, int input_rows) {
  const auto& weight = static_cast<const DenseWeight&>(*output.weight);
  const auto cols = static_cast<std::size_t>(weight.cols);
  const std::vector<double> w(weight.row(first), weight.row(first) + (last - first) * weight.cols);
  for (int row = 0; row < input_rows; ++row) {
    const double* x = input_.data() + static_cast<std::size_t>(row) * cols;
    float* out = output.out.row(row);
    for (int column = first; column < last; ++column) {
      double sum =
          reference::dot(x, w.data() + static_cast<std::size_t>(column - first) * cols, cols);
      if (output.bias) sum += output.bias.data[column];
      if (output.accumulate) sum += out[column];
      out[column] = static_cast<float>(sum);
    }
  }
}

void ReferenceBackend::rms_norm(const View& x, const View& weight, float epsilon, const View& out) {
  expects(same_shape(x, out) && weight.cols == x.cols);
  for_each(x.rows, [&](int row) {
    std::vector<double> values(x.row(row), x.row(row) + x.cols);
    reference::rms_norm(values, weight.data, epsilon);
    std::copy(values.begin(), values.end(), out.row(row));
  });
}

void ReferenceBackend::layer_norm(const View& x, const View& weight, const View& bias,
                                  float epsilon, const View& out) {
  expects(same_shape(x, out) && weight.cols == x.cols && (!bias || bias.cols == x.cols));
  for_each(x.rows, [&](int row) {
    std::vector<double> values(x.row(row), x.row(row) + x.cols);
    reference::layer_norm(values, weight.data, bias.data, epsilon);
    std::copy(values.begin(), values.end(), out.row(row));
  });
}

void ReferenceBackend::add_scaled(const View& a, const View& b, float factor, const View& out) {
  expects(same_shape(a, b) && same_shape(a, out));
  for (int row = 0; row < a.rows; ++row) {
    for (int col = 0; col < a.cols; ++col) {
      out.row(row)[col] = a.row(row)[col] + factor * b.row(row)[col];
    }
  }
}

void ReferenceBackend::scale(const View& x, float factor) {
  for (int row = 0; row < x.rows; ++row) {
    for (int col = 0; col < x.cols; ++col) x.row(row)[col] *= factor;
  }
}

void ReferenceBackend::scale_rows(const View& x, const View& factors) {
  expects(factors.rows == x.rows && factors.cols == 1);
  for (int row = 0; row < x.rows; ++row) scale(x.row_range(row, 1), *factors.row(row));
}

void ReferenceBackend::soft_cap(const View& x, float cap) {
  expects(cap > 0);
  for_each(x.rows, [&](int row) {
    std::transform(x.row(row), x.row(row) + x.cols, x.row(row), [&](float value) {
      return static_cast<float>(cap * std::tanh(double{value} / cap));
    });
  });
}

void ReferenceBackend::activate(const View& x, Activation function) {
  const bool silu = function == Activation::silu;
  const auto gate = silu ? InputTransform::silu_gate : InputTransform::sigmoid_gate;
  for (int row = 0; row < x.rows; ++row) {
    std::transform(x.row(row), x.row(row) + x.cols, x.row(row), [&](float value) {
      return static_cast<float>(reference::transform(gate, value, 1));
    });
  }
}

void ReferenceBackend::copy(const View& from, const View& to) {
  expects(same_shape(from, to));
  for (int row = 0; row < from.rows; ++row) {
    std::copy_n(from.row(row), from.cols, to.row(row));
  }
}

void ReferenceBackend::gather_rows(const View& from, const Indices& rows, const View& to) {
  expects(from.cols == to.cols && to.rows == rows.count);
  for (int row = 0; row < to.rows; ++row) {
    const std::int32_t source = rows.data[row];
    expects(source >= 0 && source < from.rows, "a row to gather");
    std::copy_n(from.row(source), from.cols, to.row(row));
  }
}

void ReferenceBackend::scatter_rows(const View& from, const Indices& rows, const View& to) {
  expects(from.cols == to.cols && from.rows == rows.count);
  for (int row = 0; row < from.rows; ++row) {
    const std::int32_t target = rows.data[row];
    expects(target >= 0 && target < to.rows, "a row to scatter to");
    std::copy_n(from.row(row), from.cols, to.row(target));
  }
}

void ReferenceBackend::attention(const AttentionArgs& args) {
  check_attention(args);
  const int rows = args.q.rows;
  for_each(rows, [&](int row) { reference::store_row(args, row); });
  for_each(rows, [&](int row) { reference::attend_row(args, row); });
}

void ReferenceBackend::recurrent(const RecurrentArgs& args) {
  check_recurrent(args);
  const AttentionLayout& layout = HostLayout::of(*args.layout);
  for (const StateRun& run : layout.runs) {
    for_each(args.shape.value_heads,
             [&](int head) { reference::recur_head(args, layout, run, head); });
    reference::keep_tails(args, layout, run);
    if (!args.out || args.shape.rule != StateRule::mamba2) continue;
    for_each(run.count, [&](int entry) {
      const auto index = static_cast<std::size_t>(run.first + entry);
      reference::finish_row(args, layout.state_rows[index].row);
    });
  }
}

void ReferenceBackend::copy_kv(KvStore& cache, const Indices& from, const Indices& to) {
  expects(from.count == to.count);
  static_cast<Cache&>(cache).copy_rows(values_of(from), values_of(to));
}

void ReferenceBackend::softmax(const View& logits, float temperature, const View& out) {
  expects(same_shape(logits, out) && temperature > 0);
  for_each(logits.rows, [&](int row) {
    std::vector<double> x(logits.row(row), logits.row(row) + logits.cols);
    for (double& value : x) value /= temperature;
    reference::softmax(x);
    std::copy(x.begin(), x.end(), out.row(row));
  });
}

void ReferenceBackend::argmax(const View& x, const Indices& best, const View& largest) {
  expects(largest.rows == x.rows && largest.cols == 1);
  top_k(x, 1, largest, best);
  for (int row = 0; row < x.rows; ++row) {
    const auto is_nan = [](float value) { return std::isnan(value); };
    if (std::any_of(x.row(row), x.row(row) + x.cols, is_nan)) *largest.row(row) = NAN;
  }
}

void ReferenceBackend::race(const View& logits, std::span<const RaceDraw> draws,
                            const Indices& winners, const View& largest) {
  expects(std::ssize(draws) == logits.rows && winners.count == logits.rows);
  argmax(logits, winners, largest);
  std::vector<TokenId> all(static_cast<std::size_t>(logits.cols));
  std::iota(all.begin(), all.end(), 0);
  for_each(logits.rows, [&](int row) {
    if (!std::isfinite(*largest.row(row))) return;
    const auto& [noise, temperature] = draws[static_cast<std::size_t>(row)];
    winners.data[row] =
        race_among(all, {{logits.row(row), all.size()}, *largest.row(row), temperature}, noise)
            .token;
  });
}

void ReferenceBackend::gumbel(std::span<const GumbelNoise> noise, const Indices& tokens,
                              const View& out) {
  expects(std::ssize(noise) == out.rows && (tokens.count == 0 || tokens.count == out.cols));
  for_each(out.rows, [&](int row) {
    fill_gumbel(noise[static_cast<std::size_t>(row)], values_of(tokens), 0,
                {out.row(row), static_cast<std::size_t>(out.cols)}, race_kernels().back());
  });
}

void ReferenceBackend::top_k(const View& x, int k, const View& values, const Indices& indices) {
  expects(k >= 1 && k <= x.cols && indices.count == x.rows * k);
  expects(values.rows == x.rows && values.cols == k);
  for_each(x.rows, [&](int row) {
    const float* from = x.row(row);
    std::vector<TokenId> order(static_cast<std::size_t>(x.cols));
    std::iota(order.begin(), order.end(), 0);
    const auto value = [&](TokenId i) { return std::isnan(from[i]) ? -INFINITY : from[i]; };
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](TokenId a, TokenId b) {
      return value(a) != value(b) ? value(a) > value(b) : a < b;
    });
    for (int i = 0; i < k; ++i) {
      const TokenId chosen = order[static_cast<std::size_t>(i)];
      indices.data[row * k + i] = chosen;
      values.row(row)[i] = from[chosen];
    }
  });
}

}  // namespace

std::unique_ptr<Backend> make_reference_backend(int threads) {
  return std::make_unique<ReferenceBackend>(threads);
}

}  // namespace talon
