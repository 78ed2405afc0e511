#include <gtest/gtest.h>

#include "backend/reference/reference.h"
#include "model/cache/state_memory.h"

namespace talon::state_cache_test {
namespace {

constexpr StateShape kShape{2, 3, 1, 1, 2, 3, 2};

struct StateMemoryTest : testing::Test {
  void fill(int slot, float value) {
    for (int layer = 0; layer < kShape.layers; ++layer) {
      const View state = memory.states(layer).row_range(slot, 1);
      backend->upload(std::vector<float>(std::size_t(state.cols), value + float(layer)), state);
    }
  }
  float value(int slot, int layer) {
    std::vector<float> values(std::size_t(kShape.state_values()));
    backend->download(memory.states(layer).row_range(slot, 1), values);
    return values.back();
  }

  std::unique_ptr<Backend> backend = make_reference_backend(1);
  StateMemory memory{*backend, kShape};
  const std::vector<TokenId> text = {1, 2, 3, 4, 5};
  std::span<const TokenId> first(std::size_t count) const { return std::span(text).first(count); }
};

TEST_F(StateMemoryTest, RecallsTheLongestSnapshotThatATextBeginsWith) {
  const int a = *memory.take(), b = *memory.take(), mine = *memory.take();
  fill(a, 10);
  fill(b, 20);
  memory.remember(a, {}, first(2));
  memory.remember(b, {}, first(4));
  EXPECT_EQ(memory.recall({}, first(3), mine), 2);
  EXPECT_EQ(value(mine, 1), 11);
  EXPECT_EQ(memory.recall({}, text, mine), 4);
  EXPECT_EQ(value(mine, 0), 20);
  EXPECT_EQ(memory.recall({.tenant = 7}, text, mine), 0);
  EXPECT_EQ(memory.recall({}, first(1), mine), 0);
}

TEST_F(StateMemoryTest, TheSnapshotLongestUnusedGivesItsSlot) {
  const int a = *memory.take(), b = *memory.take(), mine = *memory.take();
  EXPECT_FALSE(memory.take().has_value());
  memory.remember(a, {}, first(2));
  memory.remember(b, {}, first(4));
  EXPECT_EQ(memory.recall({}, first(3), mine), 2);  // used
  EXPECT_EQ(memory.take(), b);
  EXPECT_EQ(memory.recall({}, text, mine), 2);
}

TEST_F(StateMemoryTest, ATextIsRememberedOnce) {
  const int a = *memory.take(), b = *memory.take();
  memory.remember(a, {}, first(2));
  memory.remember(b, {}, first(2));
  EXPECT_EQ(memory.take(), b);  // given back
  EXPECT_EQ(memory.take(), 2);  // never used
  EXPECT_EQ(memory.take(), a);
}

/// Of a short convolution, the last inputs are the state.
TEST(StateMemoryOfConvolutions, RecallsTails) {
  const auto backend = make_reference_backend(1);
  constexpr StateShape kConvolution{2, 2, 1, 1, 0, 3, 3, StateRule::short_convolution};
  StateMemory memory(*backend, kConvolution);
  EXPECT_FALSE(memory.states(1));
  EXPECT_EQ(memory.bytes(), std::size_t{2} * 2 * 6 * sizeof(float));
  const int known = *memory.take(), mine = *memory.take();
  for (int layer = 0; layer < 2; ++layer) {
    backend->upload(std::vector<float>(6, 5.0F + static_cast<float>(layer)),
                    memory.tails(layer).row_range(known, 1));
  }
  const std::vector<TokenId> text = {1, 2, 3};
  memory.remember(known, {}, text);
  EXPECT_EQ(memory.recall({}, text, mine), 3);
  std::vector<float> values(6);
  backend->download(memory.tails(1).row_range(mine, 1), values);
  EXPECT_EQ(values.back(), 6);
}

}  // namespace
}  // namespace talon::state_cache_test
