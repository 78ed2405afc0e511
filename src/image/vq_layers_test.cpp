#include "image/vq_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>
#include <utility>

#include "image/vq_decoder.h"
#include "io/test_pictures.h"

namespace talon::vq_layers_test {
namespace {

Checkpoint recorded() { return open_checkpoint(test::unpack_picture("talon_vq_layers", "vq.pt")); }

void fill(Plane& plane, float middle = 0) {
  for (std::size_t i = 0; i < plane.values().size(); ++i)
    plane.values()[i] = middle + std::sin(0.37F * static_cast<float>(i));
}

/// Zero beside the plane.
double value_at(const Plane& plane, int row, int column, int channel) {
  const PlaneSize& size = plane.size();
  if (row < 0 || row >= size.rows || column < 0 || column >= size.columns) return 0;
  return plane
      .values()[static_cast<std::size_t>((row * size.columns + column) * size.channels + channel)];
}

/// A 3x3 with its bias, of a plane whose cells are `times` by `times` as many; before `added`.
void expect_convolved(const VqTensors& tensors, const std::string& name, const Plane& in, int times,
                      const Plane& out, double added = 0) {
  const std::vector<std::int64_t> shape = tensors.shape(name + ".weight");
  const std::vector<float> weight = tensors.values(name + ".weight", shape);
  const std::vector<float> bias = tensors.values(name + ".bias", {shape[0]});
  const PlaneSize& size = out.size();
  ASSERT_EQ(size, (PlaneSize{times * in.size().rows, times * in.size().columns, int(shape[0])}));
  const auto large = [&](int row, int column, int channel) {  // -1 / 2 is 0
    return row < 0 || column < 0 ? 0 : value_at(in, row / times, column / times, channel);
  };
  for (int row = 0; row < size.rows; ++row) {
    for (int column = 0; column < size.columns; ++column) {
      for (int c = 0; c < size.channels; ++c) {
        double sum = bias[static_cast<std::size_t>(c)] + added;
        for (int i = 0; i < 9 * in.size().channels; ++i) {
          const int from = i / 9, y = i % 9 / 3, x = i % 3;
          sum += weight[static_cast<std::size_t>(c * 9 * in.size().channels + i)] *
                 large(row + y - 1, column + x - 1, from);
        }
        ASSERT_NEAR(value_at(out, row, column, c), sum, 1e-4) << row << " " << column << " " << c;
      }
    }
  }
}

TEST(Convolution, ThatDoublesIsAThreeByThreeOfEveryCellFourTimes) {
  const Checkpoint checkpoint = recorded();
  const VqTensors tensors(checkpoint);
  const std::string name = "decoder.conv_blocks.0.upsample.conv";
  for (const int threads : {1, 2}) {
    const OneDnnThreads at_most(threads);
    for (const auto& [rows, columns] :
         {std::pair(1, 1), std::pair(2, 1), std::pair(1, 2), std::pair(3, 5), std::pair(4, 17)}) {
      Plane in(PlaneSize{rows, columns, 64});
      fill(in);
      expect_convolved(tensors, name, in, 2,
                       Convolution(tensors, name, in.size(), ConvolutionKind::doubling)(in));
    }
  }
}

TEST(Convolution, AddsToWhatIsThere) {
  const OneDnnThreads at_most(1);
  const Checkpoint checkpoint = recorded();
  const VqTensors tensors(checkpoint);
  Plane in(PlaneSize{3, 5, 64});
  fill(in);
  Plane sum = in.like(in.size());
  std::ranges::fill(sum.values(), 7.0F);
  const std::string name = "decoder.mid.0.conv2";
  Convolution(tensors, name, in.size(), ConvolutionKind::adding).add(in, sum);
  expect_convolved(tensors, name, in, 1, sum, 7);
  const std::string small = "decoder.mid.1.proj_out";  // a 1x1
  std::ranges::fill(sum.values(), 7.0F);
  Convolution(tensors, small, in.size(), ConvolutionKind::adding).add(in, sum);
  const Plane alone = Convolution(tensors, small, in.size())(in);
  for (std::size_t i = 0; i < sum.values().size(); ++i)
    ASSERT_NEAR(sum.values()[i], alone.values()[i] + 7, 1e-5) << i;
}

void expect_normed(const VqTensors& tensors, const std::string& name, const Plane& in, bool silu,
                   const Plane& out) {
  const int channels = in.size().channels, width = channels / 32;
  const std::vector<float> weight = tensors.values(name + ".weight", {channels});
  const std::vector<float> bias = tensors.values(name + ".bias", {channels});
  ASSERT_EQ(out.size(), in.size());
  for (int group = 0; group < 32; ++group) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < in.values().size(); ++i) {
      if (static_cast<int>(i) % channels / width == group) places.push_back(i);
    }
    double mean = 0, variance = 0;
    for (const std::size_t i : places) mean += in.values()[i];
    mean /= static_cast<double>(places.size());
    for (const std::size_t i : places) variance += std::pow(in.values()[i] - mean, 2);
    variance /= static_cast<double>(places.size());
    for (const std::size_t i : places) {
      const std::size_t c = i % static_cast<std::size_t>(channels);
      const double normed =
          (in.values()[i] - mean) / std::sqrt(variance + 1e-6) * weight[c] + bias[c];
      ASSERT_NEAR(out.values()[i], silu ? normed / (1 + std::exp(-normed)) : normed, 2e-5) << i;
    }
  }
}

// Of two channels in each group and of one; the second mean is large beside what differs.
TEST(GroupNorm, IsThatOfEachGroup) {
  const Checkpoint checkpoint = recorded();
  const VqTensors tensors(checkpoint);
  for (const int threads : {1, 2}) {
    const OneDnnThreads at_most(threads);
    for (const auto& [name, channels] :
         {std::pair("decoder.mid.0.norm1", 64), std::pair("decoder.norm_out", 32)}) {
      for (const bool silu : {false, true}) {
        for (const float middle : {0.0F, 10.0F}) {
          Plane in(PlaneSize{5, 7, channels});
          fill(in, middle);
          expect_normed(tensors, name, in, silu, GroupNorm(tensors, name, in.size(), silu)(in));
        }
      }
    }
  }
}

// More cells than attend at once: 2,730 of 3,072. Each is one of twelve, which attend to each other
// as they do alone.
TEST(CellAttention, InPartsIsThatOfAllCells) {
  const OneDnnThreads at_most(1);
  const Checkpoint checkpoint = recorded();
  const VqTensors tensors(checkpoint);
  const std::string name = "decoder.mid.1";
  Plane few(PlaneSize{3, 4, 64}), many(PlaneSize{64, 48, 64});
  fill(few);
  const std::size_t period = few.values().size();
  for (std::size_t i = 0; i < many.values().size(); ++i)
    many.values()[i] = few.values()[i % period];
  const CellAttention small(tensors, name, few.size()), large(tensors, name, many.size());
  const Plane alone = small(std::move(few)), all = large(std::move(many));
  for (std::size_t i = 0; i < all.values().size(); ++i)
    ASSERT_NEAR(all.values()[i], alone.values()[i % period], 1e-4) << i;
}

TEST(PlaneMemory, IsThatOfPlanesThatAreGone) {
  PlaneMemory memory;
  const PlaneSize size{4, 4, 32};
  const float* first = nullptr;
  const float* second = nullptr;
  {
    Plane plane(size, &memory);
    first = plane.values().data();
    second = plane.like({2, 2, 32}).values().data();
    EXPECT_NE(first, second);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
    EXPECT_EQ(plane.like({1, 2, 32}).values().data(), second);
    EXPECT_EQ(plane.copy().size(), size.values());
  }
  const Plane large(size, &memory), small({2, 2, 32}, &memory);
  EXPECT_EQ(large.values().data(), first);
  EXPECT_EQ(small.values().data(), second);
}

TEST(VqDecoder, ThreadsThatDecodeAtOnceShareNoPlane) {
  constexpr int kThreads = 4, kTimes = 8;
  const VqDecoder decoder(recorded(), 4, 4);
  const auto codes_of = [&](int thread) { return std::vector<TokenId>(16, thread + 1); };
  std::vector<std::vector<float>> alone;
  for (int i = 0; i < kThreads; ++i) alone.push_back(decoder.values(codes_of(i)));
  std::vector<int> wrong(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto at = static_cast<std::size_t>(i);
      for (int time = 0; time < kTimes; ++time)
        wrong[at] += decoder.values(codes_of(i)) != alone[at] ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads));
}

}  // namespace
}  // namespace talon::vq_layers_test
