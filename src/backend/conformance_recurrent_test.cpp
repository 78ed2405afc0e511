#include <cmath>
#include <numeric>

#include "backend/conformance.h"

namespace talon::conformance::conformance_recurrent_test {
namespace {

/// A layer with random weights and states on one device.
class Layer {
 public:
  static constexpr int kSlots = 5;

  Layer(Device& device, const StateShape& shape, bool tiled) : device_(device) {
    args_.shape = shape;
    args_.tiled_heads = tiled;
    args_.tails = device.random(kSlots, shape.tail_values(), 2);
    args_.filter = device.random(shape.kernel, shape.channels(), 3);
    if (shape.is_convolution()) return;
    args_.states = device.random(kSlots, shape.state_values(), 1);
    args_.decay =
        device.put(std::vector<float>(std::size_t(shape.value_heads), -0.7F), 1, shape.value_heads);
    args_.decay_bias = device.random(1, shape.value_heads, 4);
    args_.norm = device.random(1, is_mamba() ? shape.values() : shape.value_dim, 5);
    args_.norm_epsilon = 1e-6F;
    if (!is_mamba()) return;
    if (shape.key_heads == 3) args_.norm = {};  // as not all models have one
    args_.filter_bias = device.random(1, shape.channels(), 10);
    args_.skip = device.random(1, shape.value_heads, 11);
    args_.steps = {0.3F, 1.2F};
  }

  /// What the rows of `layout` give.
  View run(const AttentionLayout& layout, const View& inputs) {
    const StateShape& s = args_.shape;
    args_.out = device_.zeros(inputs.rows, s.values());
    args_.inputs = inputs;
    // Any values of the same rows.
    if (s.rule != StateRule::gated_delta) args_.gate = inputs.col_range(0, s.values());
    const auto prepared = device_->prepare(layout);
    args_.layout = prepared.get();
    device_->recurrent(args_);
    return args_.out;
  }
  /// The state alone.
  void replay(const AttentionLayout& layout, const View& inputs) {
    args_.out = args_.gate = {};
    args_.inputs = inputs;
    const auto prepared = device_->prepare(layout);
    args_.layout = prepared.get();
    device_->recurrent(args_);
  }
  std::vector<float> state(int slot) {
    std::vector<float> values = device_.get(args_.tails.row_range(slot, 1));
    if (!args_.states) return values;
    const std::vector<float> matrix = device_.get(args_.states.row_range(slot, 1));
    values.insert(values.end(), matrix.begin(), matrix.end());
    return values;
  }

 private:
  bool is_mamba() const { return args_.shape.rule == StateRule::mamba2; }

  Device& device_;
  RecurrentArgs args_;
};

constexpr StateShape kShapes[] = {{1, Layer::kSlots, 2, 4, 16, 16, 4},
                                  {1, Layer::kSlots, 1, 3, 24, 20, 4},
                                  {1, Layer::kSlots, 2, 2, 32, 80, 2},
                                  {1, Layer::kSlots, 3, 3, 8, 64, 3},
                                  {1, Layer::kSlots, 1, 9, 16, 16, 4, StateRule::mamba2},
                                  {1, Layer::kSlots, 2, 4, 24, 20, 4, StateRule::mamba2},
                                  {1, Layer::kSlots, 3, 6, 32, 80, 2, StateRule::mamba2},
                                  {1, Layer::kSlots, 1, 1, 0, 150, 3, StateRule::short_convolution},
                                  {1, Layer::kSlots, 1, 1, 0, 64, 2, StateRule::short_convolution},
                                  {1, Layer::kSlots, 1, 1, 0, 20, 5, StateRule::short_convolution}};
constexpr int kMamba = 4, kConvolution = 7;  // the first of each

AttentionLayout line(int rows, int from, int to) {
  AttentionLayout layout;
  layout.runs.push_back({from, to, 0, rows});
  for (int i = 0; i < rows; ++i) layout.state_rows.push_back({i, i - 1});
  return layout;
}

AttentionLayout tree(std::span<const int> parents, int from) {
  AttentionLayout layout;
  layout.runs.push_back({from, -1, 0, static_cast<std::int32_t>(parents.size())});
  for (std::size_t i = 0; i < parents.size(); ++i) {
    layout.state_rows.push_back({static_cast<std::int32_t>(i), parents[i]});
  }
  return layout;
}

class RecurrentConformance : public Conformance {};

TEST_P(RecurrentConformance, StepsOfEveryShape) {
  // Rounding adds up over the steps.
  check(10 * Tolerance::kFloat32, "recurrent", [&](Device& device) {
    for (const StateShape& shape : kShapes) {
      for (const bool tiled : {false, true}) {
        if (tiled && shape.rule != StateRule::gated_delta) continue;
        Layer layer(device, shape, tiled);
        const View inputs = device.random(9, shape.input_cols(), 6);
        layer.run(line(9, -1, 2), inputs);
        layer.run(line(1, 2, 2), inputs.row_range(3, 1));
        layer.run(line(5, 2, -1), inputs.row_range(0, 5));
        const int parents[] = {-1, 0, 0, 1, 1, 3, 2, -1, 0};
        layer.run(tree(parents, 3), inputs);
        AttentionLayout two = line(4, 0, 1);
        two.state_rows[1].save = 4;
        two.runs.push_back({3, 3, 4, 5});
        for (int i = 0; i < 5; ++i) two.state_rows.push_back({4 + i, i - 1});
        layer.run(two, inputs);
      }
    }
  });
}

TEST_P(RecurrentConformance, ARowHasTheSameBytesInChunksInTreesAndReplayed) {
  for (const StateShape& shape : kShapes) {
    Device one = plain(1), two = plain(2);
    Layer whole(one, shape, false), parts(two, shape, false);
    constexpr int kRows = 23;
    const std::vector<float> values = random_rows(kRows, shape.input_cols(), 7);
    const View all = one.put(values, kRows, shape.input_cols());
    const View inputs = two.put(values, kRows, shape.input_cols());
    AttentionLayout saving = line(kRows, 0, 1);
    saving.state_rows[10].save = 2;
    const std::vector<float> expected = one.get(whole.run(saving, all));
    const auto row_of = [&](int row) {
      const auto width = static_cast<std::size_t>(shape.values());
      return std::span(expected).subspan(static_cast<std::size_t>(row) * width, width);
    };
    // Chunks of 1, 2, 3, ... rows up to the saved one.
    for (int first = 0, count = 1; first < 11; first += count++) {
      count = std::min(count, 11 - first);
      const View out =
          parts.run(line(count, first == 0 ? 0 : 3, 3), inputs.row_range(first, count));
      for (int i = 0; i < count; ++i) {
        EXPECT_TRUE(same_bytes(two.get(out.row_range(i, 1)), row_of(first + i))) << first + i;
      }
    }
    EXPECT_TRUE(same_bytes(parts.state(3), whole.state(2)));
    // A tree in which the right rows are the first child, a later one, and the last.
    std::vector<std::int32_t> from(kRows - 11 + 5);
    std::vector<int> parents;
    std::vector<int> right;
    const auto add = [&](int row, int parent) {
      from[parents.size()] = row;
      parents.push_back(parent);
      return static_cast<int>(parents.size()) - 1;
    };
    int last = -1;
    for (int row = 11; row < kRows; ++row) {
      if (row == 13 || row == 14) add(0, last);
      const int next = add(row, last);
      if (row == 13 || row == 16 || row == 18) add(1, last);
      right.push_back(next);
      last = next;
    }
    const View gathered = two.zeros(static_cast<int>(from.size()), shape.input_cols());
    two->gather_rows(inputs, two.put(from), gathered);
    const View out = parts.run(tree(parents, 3), gathered);
    for (std::size_t i = 0; i < right.size(); ++i) {
      EXPECT_TRUE(same_bytes(two.get(out.row_range(right[i], 1)), row_of(11 + static_cast<int>(i))))
          << i;
    }
    EXPECT_TRUE(same_bytes(parts.state(3), whole.state(2)));  // a check writes no state
    AttentionLayout path;
    path.runs.push_back({3, 3, 0, static_cast<std::int32_t>(right.size())});
    for (std::size_t i = 0; i < right.size(); ++i) {
      path.state_rows.push_back({right[i], static_cast<std::int32_t>(i) - 1});
    }
    parts.replay(path, gathered);
    EXPECT_TRUE(same_bytes(parts.state(3), whole.state(1)));
  }
}

TEST_P(RecurrentConformance, SequencesBesideEachOtherKeepTheirBytes) {
  for (const StateShape& shape : {kShapes[0], kShapes[kMamba], kShapes[kConvolution]}) {
    Device device = plain(2);
    Layer layer(device, shape, shape.rule == StateRule::gated_delta);
    const View inputs = device.random(7, shape.input_cols(), 8);
    const std::vector<float> first = device.get(layer.run(line(3, 0, -1), inputs.row_range(0, 3)));
    const std::vector<float> second = device.get(layer.run(line(4, 1, -1), inputs.row_range(3, 4)));
    AttentionLayout both = line(3, 0, -1);
    both.runs.push_back({1, -1, 3, 4});
    for (int i = 0; i < 4; ++i) both.state_rows.push_back({3 + i, i - 1});
    const View out = layer.run(both, inputs);
    EXPECT_TRUE(same_bytes(device.get(out.row_range(0, 3)), first));
    EXPECT_TRUE(same_bytes(device.get(out.row_range(3, 4)), second));
  }
}

/// A line whose states are kept where they were, with saves amid it: workers share its key head, or
/// its channels.
class RecurrentThreads : public Conformance {
 protected:
  void expect_same_of_any_number(const StateShape& shape);
};

void RecurrentThreads::expect_same_of_any_number(const StateShape& shape) {
  std::vector<float> expected;
  for (const int threads : {1, 2, 5}) {
    Device device = plain(threads);
    Layer layer(device, shape, false);
    const View inputs = device.random(12, shape.input_cols(), 12);
    AttentionLayout saving = line(12, 3, 3);
    saving.state_rows[0].save = 1;
    saving.state_rows[5].save = 2;
    std::vector<float> found = device.get(layer.run(saving, inputs));
    for (const int slot : {1, 2, 3}) {
      const std::vector<float> state = layer.state(slot);
      found.insert(found.end(), state.begin(), state.end());
    }
    if (expected.empty()) expected = found;
    EXPECT_TRUE(same_bytes(found, expected)) << threads;
  }
}

TEST_P(RecurrentThreads, OfAnyNumberGiveTheSameBytes) {
  for (const int shape : {kMamba, kConvolution}) expect_same_of_any_number(kShapes[shape]);
}

TEST(StateGates, StepsOfMambaStayWithinTheirLimits) {
  std::vector<float> inputs = {0, 0, 0, 0.5F, 0, 0, 0, -9}, decay = {-2}, bias = {0.5F};
  RecurrentArgs args;
  args.shape = {1, 1, 1, 1, 1, 1, 2, StateRule::mamba2};
  args.inputs = {inputs.data(), 2, 4, 4};
  args.decay = {decay.data(), 1, 1, 1};
  args.decay_bias = {bias.data(), 1, 1, 1};
  const double step = std::log1p(std::exp(1.0));
  EXPECT_FLOAT_EQ(state_gates(args, 0, 0).write, static_cast<float>(step));
  EXPECT_FLOAT_EQ(state_gates(args, 0, 0).keep, static_cast<float>(std::exp(-2 * step)));
  args.steps = {0.5F, 1};
  EXPECT_EQ(state_gates(args, 0, 0).write, 1);
  EXPECT_FLOAT_EQ(state_gates(args, 0, 0).keep, static_cast<float>(std::exp(-2.0)));
  EXPECT_EQ(state_gates(args, 1, 0).write, 0.5F);
}

/// Row by row by hand: the inputs are products, the filter reads the last two, the gate weighs.
void expect_filter_of_products(std::unique_ptr<Backend> backend) {
  Device device(std::move(backend));
  RecurrentArgs args;
  args.shape = {1, 1, 1, 1, 0, 1, 2, StateRule::short_convolution};
  args.inputs = device.put(std::vector<float>{2, 3, -1, 4, 5, 0.5F}, 3, 2);  // v, b
  args.tails = device.put(std::vector<float>{10}, 1, 1);
  args.filter = device.put(std::vector<float>{0.5F, 2}, 2, 1);
  args.gate = device.put(std::vector<float>{1, -2, 4}, 3, 1);
  args.out = device.zeros(3, 1);
  const AttentionLayout layout = line(3, 0, 0);
  const auto prepared = device->prepare(layout);
  args.layout = prepared.get();
  device->recurrent(args);
  EXPECT_EQ(device.get(args.out), (std::vector<float>{17, 10, 12}));
  EXPECT_EQ(device.get(args.tails), std::vector<float>{2.5F});
}

TEST(ShortConvolution, WeighsAFilterOfProductsByItsGate) {
  expect_filter_of_products(make_reference_backend(1));
  expect_filter_of_products(make_cpu_backend({.threads = 1}));
}

void expect_same_of_all_sets(const StateShape& shape) {
  std::vector<float> expected;
  for (const CpuKernels kernels :
       {CpuKernels::portable, CpuKernels::avx2, CpuKernels::avx512_vnni}) {
    BackendCase backend{"", kernels, Activations::mixed};
    try {
      backend.make(1);
    } catch (const UsageError&) {
      continue;  // not on this machine
    }
    Device device(backend.make(2));
    Layer layer(device, shape, false);
    const View inputs = device.random(6, shape.input_cols(), 9);
    std::vector<float> found = device.get(layer.run(line(6, 0, 2), inputs));
    const std::vector<float> state = layer.state(2);
    found.insert(found.end(), state.begin(), state.end());
    if (expected.empty()) expected = found;
    EXPECT_TRUE(same_bytes(found, expected));
  }
}

TEST(RecurrentKernels, AllInstructionSetsGiveTheSameBytes) {
  for (const int shape : {1, 5, kConvolution, 9}) expect_same_of_all_sets(kShapes[shape]);
}

INSTANTIATE_TEST_SUITE_P(Backends, RecurrentConformance, testing::ValuesIn(backend_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Backends, RecurrentThreads, testing::ValuesIn(backend_cases()), case_name);

}  // namespace
}  // namespace talon::conformance::conformance_recurrent_test
