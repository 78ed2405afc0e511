#include "cli/pull/hub_listing.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "io/test_files.h"

namespace talon::hub_listing_test {
namespace {

TEST(HubListing, IsKeptAsItWasRead) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(kept_listing(folder.path()));
  const std::string sum(64, 'a');
  const HubListing listing = read_listing(
      R"({"sha": "0123", "siblings": [{"rfilename": "b"}, {"rfilename": "a/m.gguf", "size": 7,)"
      R"( "lfs": {"oid": ")" +
          sum + R"("}}, {"rfilename": "b", "size": 1}]})",
      "test");
  for (int i = 0; i < 2; ++i) {
    keep_listing(folder.path(), listing);
    const auto kept = kept_listing(folder.path());
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->commit, "0123");
    ASSERT_EQ(kept->files.size(), 2u);
    EXPECT_EQ(kept->files[0].path, "a/m.gguf");
    EXPECT_EQ(kept->files[0].bytes, 7u);
    EXPECT_EQ(kept->files[0].sha256, sum);
    EXPECT_EQ(kept->files[1].path, "b");
    EXPECT_EQ(kept->files[1].bytes, std::nullopt);
  }
}

TEST(HubListing, ADamagedOneIsNone) {
  const test::TemporaryFolder folder;
  for (const char* text : {"{", "{}", R"({"sha": "a/b", "siblings": []})"}) {
    folder.add(std::string(kListingFile), text);
    EXPECT_THROW(kept_listing(folder.path()), Error) << text;
  }
}

}  // namespace
}  // namespace talon::hub_listing_test
