#include "model/tap_set.h"

#include <gtest/gtest.h>

namespace talon::tap_set_test {
namespace {

using Taps = std::vector<FeatureTap>;

constexpr int kHidden = 3;

/// Rows whose columns of tap i begin at 3 i.
int first_column(const TapSet& set, TapSet::Reader reader) {
  static float memory[100];
  const View features{memory, 1, static_cast<int>(set.taps().size()) * kHidden, 100};
  return static_cast<int>(set.columns(reader, features).data - memory);
}

TEST(TapSet, SharesWhatReadersWantAlike) {
  TapSet set;
  const auto head = set.add(Taps{{2}, {4}, {6}});
  const auto same = set.add(Taps{{2}, {4}, {6}}), part = set.add(Taps{{4}, {6}});
  EXPECT_EQ(set.taps(), (Taps{{2}, {4}, {6}}));
  EXPECT_EQ(first_column(set, head), 0);
  EXPECT_EQ(first_column(set, same), 0);
  EXPECT_EQ(first_column(set, part), kHidden);
}

TEST(TapSet, GivesEachReaderItsTapsSideBySideInItsOrder) {
  TapSet set;
  const auto head = set.add(Taps{{2}, {4}, {FeatureTap::kFinalNorm}});
  const auto overlaps = set.add(Taps{{FeatureTap::kFinalNorm}, {0}});
  const auto reversed = set.add(Taps{{4}, {2}});
  EXPECT_EQ(set.taps(), (Taps{{2}, {4}, {FeatureTap::kFinalNorm}, {0}, {4}, {2}}));
  EXPECT_EQ(first_column(set, head), 0);
  EXPECT_EQ(first_column(set, overlaps), 2 * kHidden);
  EXPECT_EQ(first_column(set, reversed), 4 * kHidden);
}

TEST(TapSet, AReaderThatWantsNothingGetsNothing) {
  TapSet set;
  const auto nothing = set.add({}), head = set.add(Taps{{1}});
  float row[kHidden] = {};
  EXPECT_FALSE(set.wants(nothing));
  EXPECT_TRUE(set.wants(head));
  EXPECT_FALSE(set.columns(nothing, View{row, 1, kHidden, kHidden}));
  EXPECT_FALSE(set.columns(head, View{}));
}

}  // namespace
}  // namespace talon::tap_set_test
