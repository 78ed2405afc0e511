#include "runtime/heads.h"

#include <gtest/gtest.h>

#include <fstream>

namespace talon {
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

TEST(Auto, LeavesOtherTextsAlone) {
  EXPECT_EQ(resolve_drafter("none", finder_of({"eagle3"})), "none");
  EXPECT_EQ(resolve_drafter("eagle3:head=auto", {}), "eagle3:head=auto");
}

TEST(Heads, LieInTheFirstPlaceThatHasThem) {
  const std::filesystem::path root = testing::TempDir() + "/talon_heads_test";
  std::filesystem::remove_all(root);
  for (const char* folder : {"second/small-eagle3", "third/small-eagle3", "third/small-medusa"}) {
    std::filesystem::create_directories(root / folder);
    std::ofstream(root / folder / "config.json") << "{}";
  }
  std::filesystem::create_directories(root / "first/small-eagle3");  // without a configuration
  const std::vector<std::filesystem::path> places = {root / "first", root / "second",
                                                     root / "third"};
  const HeadFinder heads = heads_in(places, "small");
  EXPECT_EQ(heads("eagle3"), (root / "second/small-eagle3").string());
  EXPECT_EQ(heads("medusa"), (root / "third/small-medusa").string());
  EXPECT_EQ(heads("eagle2"), "");
  EXPECT_EQ(heads_in(places, "")("eagle3"), "");
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace talon
