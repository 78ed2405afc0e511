#include "backend/conformance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "backend/index_list.h"

namespace talon::conformance::conformance_test {
namespace {

class OperationConformance : public Conformance {};

TEST_P(OperationConformance, LinearOfEveryStoredTypeAndTransform) {
  for (const StorageType type : kAllTypes) {
    const TestMatrix first = random_matrix(type, 40, 512, 1),
                     second = random_matrix(type, 17, 512, 2);
    check(Tolerance::linear(type, GetParam().activations), std::string(name_of(type)),
          [&](Device& device) {
            const auto a = device->load_weight(first.stored, WeightLayout::as_stored);
            const auto b = device->load_weight(second.stored, WeightLayout::as_stored);
            for (const int rows : {1, 2, 7, 33}) {
              const View x = device.random(rows, 512, 3), wide = device.random(rows, 1024, 4);
              const View norm = device.random(1, 512, 5), bias = device.random(1, 17, 6);
              const View out = device.random(rows, 57, 7);
              const View halves[] = {out.col_range(0, 40), out.col_range(40, 17)};
              const Projection both[] = {{a.get(), halves[0]}, {b.get(), halves[1], bias, true}};
              device->linear({.input = x, .outputs = both});
              device->linear({.input = x,
                              .transform = InputTransform::rms_norm,
                              .norm = norm,
                              .norm_epsilon = 1e-5F,
                              .outputs = both});
              device->linear(
                  {.input = wide, .transform = InputTransform::silu_gate, .outputs = both});
            }
          });
  }
}

TEST_P(OperationConformance, LinearAfterEveryTransform) {
  using enum InputTransform;
  const TestMatrix matrix = random_matrix(StorageType::f32, 33, 200, 1);
  for (const InputTransform transform :
       {rms_norm, layer_norm, silu_gate, gelu_tanh_gate, clamped_swiglu, sigmoid_gate, gelu_tanh,
        gelu_erf, relu_squared, xielu}) {
    const auto what = fmt::format("transform {}", static_cast<int>(transform));
    check(Tolerance::kFloat32, what, [&](Device& device) {
      const auto weight = device->load_weight(matrix.stored, WeightLayout::as_stored);
      const View norm = device.random(1, 200, 5), bias = device.random(1, 200, 6);
      for (const int rows : {1, 3, 20}) {
        std::vector<float> values = random_rows(rows, is_gate(transform) ? 400 : 200, 4);
        for (std::size_t i = 0; i < values.size(); i += 7) values[i] *= 9;  // beyond the clamps
        const View x = device.put(values, rows, is_gate(transform) ? 400 : 200);
        const Projection output[] = {{weight.get(), device.zeros(rows, 33)}};
        for (const View& norm_bias : {View{}, bias}) {
          device->linear({.input = x,
                          .transform = transform,
                          .norm = norm,
                          .norm_bias = norm_bias,
                          .norm_epsilon = 1e-5F,
                          .outputs = output,
                          .xielu = {1.3F, 0.7F, 0.45F, -1e-6F}});
        }
      }
    });
  }
}

TEST_P(OperationConformance, LinearOfFloatsWithAnyNumberOfColumns) {
  for (const int cols : {1, 15, 48, 172, 288}) {
    const TestMatrix matrix = random_matrix(StorageType::f32, 21, cols, 1);
    check(Tolerance::kFloat32, fmt::format("{} columns", cols), [&](Device& device) {
      const auto weight = device->load_weight(matrix.stored, WeightLayout::as_stored);
      const Projection output[] = {{weight.get(), device.zeros(5, 21)}};
      device->linear({.input = device.random(5, cols, 2), .outputs = output});
    });
  }
}

TEST_P(OperationConformance, EmbeddingGivesTheStoredValuesOfEveryType) {
  for (const StorageType type : kAllTypes) {
    const TestMatrix table = random_matrix(type, 50, 256, 8);
    check(0, std::string(name_of(type)), [&](Device& device) {
      const auto weight = device->load_weight(table.stored, WeightLayout::as_stored);
      EXPECT_EQ(weight->rows, 50);
      EXPECT_TRUE(weight->exact);
      device->embed(*weight, device.put({0, 49, 7, 7}), device.zeros(4, 256));
    });
  }
}

TEST_P(OperationConformance, RowsOfAWeightMayBeReordered) {
  const TestMatrix matrix = random_matrix(StorageType::q4_1, 48, 64, 9);
  std::vector<std::int32_t> order(48);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(10));
  StoredMatrix reordered = matrix.stored;
  reordered.row_order = order;
  Device device = plain();
  const auto as_stored = device->load_weight(matrix.stored, WeightLayout::as_stored);
  const auto weight = device->load_weight(reordered, WeightLayout::as_stored);
  const View expected = device.zeros(48, 64), found = device.zeros(48, 64);
  std::vector<TokenId> all(48);
  std::iota(all.begin(), all.end(), 0);
  device->embed(*as_stored, device.put(order), expected);
  device->embed(*weight, device.put(all), found);
  EXPECT_TRUE(same_bytes(device.get(expected), device.get(found)));
}

TEST_P(OperationConformance, RowWiseOperations) {
  check(Tolerance::kFloat32, "row-wise", [](Device& device) {
    for (const int rows : {1, 3, 40}) {
      for (const int cols : {1, 64, 300}) {
        const View a = device.random(rows, cols, 1), b = device.random(rows, cols, 2);
        const View out = device.zeros(rows, cols), weight = device.random(1, cols, 3);
        device->rms_norm(a, weight, 1e-5F, out);
        device->rms_norm(out, weight, 1e-6F, out);
        device->add(a, b, out);
        device->add(out, b, out);
        device->activate(out, Activation::silu);
        device->activate(out, Activation::sigmoid);
        device->layer_norm(b, weight, {}, 1e-1F, out);
        device->layer_norm(b, weight, a.row_range(0, 1), 1e-1F, out);
        device->add_scaled(a, b, -0.7F, out);
        device->scale(out, 3.25F);
        device->scale_rows(out, device.random(rows, 1, 4));
        device->soft_cap(out, 2.5F);
        device->softmax(a, 1.0F, out);
        device->softmax(a, 0.3F, out);
        device->copy(a, out);
      }
    }
  });
}

TEST_P(OperationConformance, MovingRowsAndColumnsIsExact) {
  check(0, "moves", [](Device& device) {
    const View from = device.random(9, 70, 1), to = device.random(12, 100, 2);
    device->copy(from.col_range(3, 40), to.row_range(2, 9).col_range(51, 40));
    device->gather_rows(from, device.put({8, 0, 0, 5}), to.row_range(0, 4).col_range(0, 70));
    device->scatter_rows(from.row_range(0, 3), device.put({11, 1, 4}), to.col_range(10, 70));
  });
}

TEST_P(OperationConformance, ChoicesAreThoseOfTheReferenceWithTiesByIndex) {
  check(0, "choices", [](Device& device) {
    std::vector<float> values = random_rows(20, 1000, 11);
    for (float& value : values) value = std::round(value * 4);  // many ties
    const View x = device.put(values, 20, 1000);
    const Indices best_list = device.indices(20), top_list = device.indices(20 * 37);
    const View largest_column = device.zeros(20, 3).col_range(1, 1), top = device.zeros(20, 37);
    device->argmax(x, best_list, largest_column);
    device->top_k(x, 37, top, top_list);
    const std::vector<std::int32_t> best = device.get(best_list), indices = device.get(top_list);
    const std::vector<float> largest = device.get(largest_column), found = device.get(top);
    for (std::size_t row = 0; row < 20; ++row) {
      EXPECT_EQ(best[row], indices[row * 37]);
      EXPECT_EQ(largest[row], found[row * 37]);
      for (std::size_t i = 0; i < 37; ++i) {
        const auto index = static_cast<std::size_t>(indices[row * 37 + i]);
        EXPECT_EQ(found[row * 37 + i], values[row * 1000 + index]);
      }
    }
  });
}

TEST_P(OperationConformance, TheLargestValueOfARowIsNanWhereTheRowHoldsOne) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int cols : {16, 21, 333}) {
    Device device = plain();
    const auto width = static_cast<std::size_t>(cols);
    for (const std::size_t place : {std::size_t{0}, width / 2, width - 1}) {
      std::vector<float> values(3 * width, -kInfinity);
      for (std::size_t row = 0; row < 3; ++row) values[row * width + 2] = 1.5F;
      values[place] = kNan;
      values[width + place] = kInfinity;
      const Indices best = device.indices(3);
      const View largest = device.zeros(3, 1);
      device->argmax(device.put(values, 3, cols), best, largest);
      EXPECT_EQ(device.get(best), (std::vector<std::int32_t>{2, static_cast<int>(place), 2}));
      const std::vector<float> found = device.get(largest);
      EXPECT_TRUE(std::isnan(found[0])) << place << " of " << cols;
      EXPECT_EQ(found[1], kInfinity);
      EXPECT_EQ(found[2], 1.5F);
    }
  }
}

RaceDraw draw_at(std::uint64_t position) {
  return {RaceNoise(PositionRandom(7, 0), position), 0.3 + 0.1 * static_cast<double>(position)};
}

TEST_P(OperationConformance, RacesHaveTheWinnersOfTheReference) {
  check(0, "races", [](Device& device) {
    for (const int cols : {3, 70, 5000, 33'001}) {
      std::vector<float> values = random_rows(6, cols, 21);
      for (std::size_t i = 0; i < values.size(); i += 5)
        values[i] = -std::numeric_limits<float>::infinity();
      const View logits = device.put(values, 6, cols);
      std::vector<RaceDraw> draws;
      for (std::uint64_t i = 0; i < 6; ++i) draws.push_back(draw_at(i));
      const Indices winners = device.indices(6);
      const View largest = device.zeros(6, 1);
      device->race(logits, draws, winners, largest);
      const std::vector<std::int32_t> found = device.get(winners);
      for (std::size_t row = 0; row < 6; ++row) {
        const auto width = static_cast<std::size_t>(cols);
        const std::span<const float> of_row(values.data() + row * width, width);
        EXPECT_EQ(found[row], draw_by_race(of_row, draws[row])) << cols << " tokens";
        EXPECT_EQ(device.get(largest)[row], *std::ranges::max_element(of_row));
      }
    }
  });
}

TEST_P(OperationConformance, WhatVouchesForARaceIsNanOrInfinityWhereTheRowHoldsThem) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int cols : {70, 9000}) {
    Device device = plain();
    const auto width = static_cast<std::size_t>(cols);
    std::vector<float> values(4 * width, 1.5F);
    values[width - 1] = std::numeric_limits<float>::quiet_NaN();
    values[width + width / 2] = kInfinity;
    std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(2 * width), width, -kInfinity);
    const std::vector<RaceDraw> draws(4, draw_at(1));
    const View largest = device.zeros(4, 1);
    device->race(device.put(values, 4, cols), draws, device.indices(4), largest);
    const std::vector<float> found = device.get(largest);
    EXPECT_TRUE(std::isnan(found[0])) << cols;
    EXPECT_EQ(found[1], kInfinity);
    EXPECT_EQ(found[2], -kInfinity);
    EXPECT_EQ(found[3], 1.5F);
  }
}

TEST_P(OperationConformance, GumbelNoiseIsThatOfTheTokensOfAList) {
  check(2e-5, "noise", [](Device& device) {
    for (const int cols : {5, 100, 6000}) {
      std::vector<std::int32_t> list;
      for (int i = 0; i < cols; ++i) list.push_back(i * 3 + i % 2);
      if (cols > 9) std::swap(list[3], list[static_cast<std::size_t>(cols) - 2]);
      const std::vector<GumbelNoise> noise = {{draw_at(1).noise.high_words(), 0.8F},
                                              {draw_at(2).noise.high_words(), 1}};
      for (const bool has_list : {false, true}) {
        const View out = device.zeros(2, cols);
        device->gumbel(noise, has_list ? device.put(list) : device.indices(0), out);
        const std::vector<float> found = device.get(out);
        for (std::size_t i = 0; i < found.size(); ++i) {
          const std::size_t row = i / static_cast<std::size_t>(cols);
          const auto col = i % static_cast<std::size_t>(cols);
          const TokenId token = has_list ? list[col] : static_cast<TokenId>(col);
          const double exact = -draw_at(row + 1).noise.log_exponential(token);
          ASSERT_NEAR(found[i], static_cast<double>(noise[row].scale) * exact, 1e-4) << token;
        }
      }
    }
  });
}

TestMatrix identity(int size) {
  TestMatrix matrix = random_matrix(StorageType::f32, size, size, 1);
  for (int row = 0; row < size; ++row) {
    for (int col = 0; col < size; ++col) {
      const float value = row == col ? 1.0F : 0.0F;
      std::memcpy(matrix.bytes.data() + 4 * (row * size + col), &value, 4);
    }
  }
  return matrix;
}

TEST_P(OperationConformance, ActivateIsTheGateOfOnes) {
  for (const int cols : {1, 16, 77}) {
    Device device = plain();
    const View x = device.random(5, cols, 31), both = device.zeros(5, 2 * cols);
    const View ones =
        device.put(std::vector<float>(static_cast<std::size_t>(5 * cols), 1.0F), 5, cols);
    device->copy(x, both.col_range(0, cols));
    device->copy(ones, both.col_range(cols, cols));
    device->activate(x, Activation::silu);
    const TestMatrix matrix = identity(cols);
    const auto weight = device->load_weight(matrix.stored, WeightLayout::as_stored);
    // Both pass through the same matrix, which may round what it reads.
    const View gated = device.zeros(5, cols), activated = device.zeros(5, cols);
    const Projection gated_output[] = {{weight.get(), gated}};
    device->linear(
        {.input = both, .transform = InputTransform::silu_gate, .outputs = gated_output});
    const Projection activated_output[] = {{weight.get(), activated}};
    device->linear({.input = x, .outputs = activated_output});
    EXPECT_TRUE(same_bytes(device.get(activated), device.get(gated))) << cols;
  }
}

TEST_P(OperationConformance, NumbersComeBackAsTheyWereSentAndAreThoseOfTheLastUpload) {
  Device device = plain();
  IndexList list(device.backend());
  const Indices few = list.put(std::vector<std::int32_t>{4, -1, 2147483647});
  EXPECT_EQ(device.get(few), (std::vector<std::int32_t>{4, -1, 2147483647}));
  std::vector<std::int32_t> many(1000);
  std::iota(many.begin(), many.end(), 7);
  const Indices all = list.put(many);
  EXPECT_EQ(device.get(all.range(990, 10)), std::vector<std::int32_t>(many.end() - 10, many.end()));
  EXPECT_EQ(list.put({}).count, 0);
  std::vector<std::int32_t> later(1000);
  Fence fence = device->download_async(all, later);
  fence.wait();
  fence.wait();  // once more does nothing
  EXPECT_EQ(later, many);
}

TEST_P(OperationConformance, ReplayDoesWhatItsBodyDoesWithWhatLiesInMemory) {
  Device device = plain();
  const View from = device.random(4, 9, 1), to = device.zeros(2, 9);
  const Indices rows = device.indices(2);
  const ReplayKey key{new_replay_owner(), 2};
  for (const auto& wanted : {std::vector<std::int32_t>{3, 0}, std::vector<std::int32_t>{1, 1}}) {
    device->upload(wanted, rows);
    device->replay(key, [&] { device->gather_rows(from, rows, to); });
    std::vector<float> expected = device.get(from.row_range(wanted[0], 1));
    const std::vector<float> second = device.get(from.row_range(wanted[1], 1));
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_TRUE(same_bytes(device.get(to), expected));
  }
}

/// Rows [first, first + rows) of a fixed input through one weight.
class RowRun {
 public:
  RowRun(Device device, const TestMatrix& matrix)
      : device_(std::move(device)),
        weight_(device_->load_weight(matrix.stored, WeightLayout::as_stored)),
        x_(device_.random(kMost, 1024, 13)),
        norm_(device_.random(1, 512, 14)),
        out_(device_.zeros(kMost, 33)) {}

  std::vector<float> run(InputTransform transform, int first, int rows) {
    const bool gated = transform == InputTransform::silu_gate;
    const View x = x_.row_range(first, rows), out = out_.row_range(first, rows);
    const Projection output[] = {{weight_.get(), out}};
    device_->linear({.input = gated ? x : x.col_range(0, 512),
                     .transform = transform,
                     .norm = norm_,
                     .norm_epsilon = 1e-5F,
                     .outputs = output});
    return device_.get(out);
  }
  static constexpr int kMost = 70;

 private:
  Device device_;
  std::unique_ptr<Weight> weight_;
  View x_, norm_, out_;
};

TEST_P(OperationConformance, ARowOfLinearHasTheSameBytesAloneAndAmongOthers) {
  for (const StorageType type : kAllTypes) {
    const TestMatrix matrix = random_matrix(type, 33, 512, 12);
    RowRun one(plain(1), matrix), two(plain(2), matrix);
    for (const auto transform :
         {InputTransform::none, InputTransform::rms_norm, InputTransform::silu_gate}) {
      const std::vector<float> all = one.run(transform, 0, RowRun::kMost);
      for (const int rows : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64}) {
        const int first = RowRun::kMost - rows;
        EXPECT_TRUE(same_bytes(two.run(transform, first, rows),
                               std::span(all).subspan(static_cast<std::size_t>(first) * 33)))
            << name_of(type) << " " << rows << " rows";
      }
    }
  }
}

TEST_P(OperationConformance, WrongShapesAreBugs) {
  Device device = plain();
  const TestMatrix matrix = random_matrix(StorageType::f32, 4, 32, 22);
  const auto weight = device->load_weight(matrix.stored, WeightLayout::as_stored);
  const View x = device.zeros(3, 32), narrow = device.zeros(3, 31), out = device.zeros(3, 4);
  const Projection good[] = {{weight.get(), out}};
  EXPECT_THROW(device->linear({.input = narrow, .outputs = good}), Bug);
  EXPECT_THROW(device->add(x, narrow, x), Bug);
  EXPECT_THROW(device->embed(*weight, device.put({4}), device.zeros(1, 32)), Bug);
  EXPECT_THROW(device->gather_rows(x, device.put({3}), device.zeros(1, 32)), Bug);
  EXPECT_THROW(device->top_k(x, 33, device.zeros(3, 33), device.indices(3 * 33)), Bug);
  EXPECT_THROW(device->argmax(x, device.indices(2), device.zeros(3, 1)), Bug);
  std::vector<float> small(3);
  EXPECT_THROW(device->download(x, small), Bug);
}

INSTANTIATE_TEST_SUITE_P(Backends, OperationConformance, testing::ValuesIn(backend_cases()),
                         case_name);

TEST(CheckingBackend, ReportsWhatDiffersAndOnlyThat) {
  // 8-bit activations differ from float32 by far more than the tolerance; a copy does not.
  auto checking =
      make_checking_backend(make_cpu_backend({.threads = 1, .activations = Activations::bits8}),
                            make_reference_backend(1), 1e-6);
  CheckingBackend& watched = *checking;
  Device device(std::move(checking));
  const TestMatrix matrix = random_matrix(StorageType::q8_0, 8, 64, 23);
  const auto weight = device->load_weight(matrix.stored, WeightLayout::as_stored);
  const View x = device.random(2, 64, 24), out = device.zeros(2, 8);
  device->copy(x, device.zeros(2, 64));
  EXPECT_TRUE(watched.mismatches().empty());
  const Projection output[] = {{weight.get(), out}};
  device->linear({.input = x, .outputs = output});
  ASSERT_EQ(watched.mismatches().size(), 2U);  // one a row
  EXPECT_EQ(watched.mismatches()[0].operation, "linear");
  EXPECT_GT(watched.mismatches()[0].largest_difference, 0);
  EXPECT_GT(watched.mismatches()[0].scale, 0);
}

}  // namespace
}  // namespace talon::conformance::conformance_test
