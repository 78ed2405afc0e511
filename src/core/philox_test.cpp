#include "core/philox.h"

#include <gtest/gtest.h>

namespace talon::philox_test {
namespace {

// The three known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10 rounds).
TEST(Philox, MatchesThePublishedKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PositionRandom, ADrawDependsOnSeedChoicePositionAndUseOnly) {
  const PositionRandom random(7, 0);
  EXPECT_EQ(random.uniform(12, RandomUse::sample), random.uniform(12, RandomUse::sample));
  EXPECT_NE(random.uniform(12, RandomUse::sample), random.uniform(13, RandomUse::sample));
  EXPECT_NE(random.uniform(12, RandomUse::sample), random.uniform(12, RandomUse::accept));
  EXPECT_NE(random.uniform(12, RandomUse::sample),
            PositionRandom(8, 0).uniform(12, RandomUse::sample));
  EXPECT_NE(random.uniform(12, RandomUse::sample),
            PositionRandom(7, 1).uniform(12, RandomUse::sample));
}

}  // namespace
}  // namespace talon::philox_test
