#include "runtime/heads/auto_drafter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"

namespace talon::auto_drafter_test {
namespace {

HeadFinder finder_of(std::vector<std::string> kinds) {
  return [kinds](std::string_view kind) {
    for (const std::string& known : kinds) {
      if (known == kind) return "head of " + known;
    }
    return std::string();
  };
}

TEST(Auto, IsTheStrongestHeadWithSuffixAndSuffixWithoutOne) {
  EXPECT_EQ(resolve_drafter("auto", finder_of({"medusa", "eagle2", "eagle3"})), "eagle3+suffix");
  EXPECT_EQ(resolve_drafter("auto", finder_of({"medusa", "eagle2"})), "eagle2+suffix");
  EXPECT_EQ(resolve_drafter("auto", finder_of({"medusa"})), "medusa+suffix");
  EXPECT_EQ(resolve_drafter("auto", finder_of({})), "suffix");
  EXPECT_EQ(resolve_drafter("auto", {}), "suffix");
}

TEST(Auto, IsThePredictionLayerOfTheModelWhereNoHeadWasTrained) {
  EXPECT_EQ(resolve_drafter("auto", finder_of({"mtp"})), "mtp+suffix");
  EXPECT_EQ(resolve_drafter("auto", finder_of({"mtp", "medusa"})), "medusa+suffix");
}

TEST(Auto, OfPicturesIsJoinedWithJacobi) {
  EXPECT_EQ(resolve_drafter("auto", finder_of({"eagle2"}), OutputKind::picture), "eagle2+jacobi");
  EXPECT_EQ(resolve_drafter("auto", finder_of({}), OutputKind::picture), "jacobi");
}

TEST(Auto, LeavesOtherTextsAlone) {
  EXPECT_EQ(resolve_drafter("none", finder_of({"eagle3"})), "none");
  EXPECT_EQ(resolve_drafter("eagle3:head=auto", {}), "eagle3:head=auto");
}

std::string refusal_of(const std::string& drafter) {
  try {
    return "none: " + resolve_drafter(drafter, {});
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Auto, IsAmongTheNamesThatAnUnknownDrafterIsToldOf) {
  for (const char* drafter : {"eagl3", "suffix+eagl3", "eagl3:topk=1+suffix"}) {
    const std::string refusal = refusal_of(drafter);
    EXPECT_TRUE(refusal.starts_with("drafter: expected one of auto, none, ngram, ")) << refusal;
    EXPECT_TRUE(refusal.ends_with(", found \"eagl3\"")) << refusal;
  }
}

TEST(Auto, StandsAlone) {
  for (const std::string drafter : {"auto:topk=1", "auto+ngram", "ngram:nodes=1+ngram+auto"}) {
    EXPECT_EQ(refusal_of(drafter),
              "drafter: expected auto alone, without options or others beside it, found \"" +
                  drafter + "\"");
  }
}

}  // namespace
}  // namespace talon::auto_drafter_test
