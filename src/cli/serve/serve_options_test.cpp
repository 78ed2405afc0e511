#include "cli/serve/serve_options.h"

#include <gtest/gtest.h>

namespace talon::serve_options_test {
namespace {

using Named = std::pair<std::string, std::string>;

std::string name_of(const std::string& given) { return named_models({given}).front().first; }

TEST(NamedModels, AreCalledAsTheirPathsEnd) {
  EXPECT_EQ(name_of("smollm2"), "smollm2");
  EXPECT_EQ(name_of("models/big.gguf"), "big");
  EXPECT_EQ(name_of("OWNER/NAME:Q4_K_M"), "NAME:Q4_K_M");
  EXPECT_EQ(name_of("/models/mine"), "mine");
  EXPECT_EQ(name_of("/models/mine/"), "mine");
  EXPECT_EQ(name_of("mine//"), "mine");
}

TEST(NamedModels, HaveTheNamesThatAreGiven) {
  const auto named = named_models({"a=/models/b/", "/models/c=d"});
  EXPECT_EQ(named[0], Named("a", "/models/b/"));
  EXPECT_EQ(named[1], Named("c=d", "/models/c=d"));
}

}  // namespace
}  // namespace talon::serve_options_test
