#include "cli/serve/serve_options.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace talon::serve_options_test {
namespace {

using Names = std::vector<std::string>;

std::string name_of(const std::string& given) {
  return named_models({given}).front().names.front();
}

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
  EXPECT_EQ(named[0], (NamedModel{{"a"}, "/models/b/"}));
  EXPECT_EQ(named[1], (NamedModel{{"c=d"}, "/models/c=d"}));
}

TEST(NamedModels, MayHaveSeveralNames) {
  const auto named = named_models({"a,b=/models/c,d", "/models/e,f=g", "h,i"});
  EXPECT_EQ(named[0].names, (Names{"a", "b"}));
  EXPECT_EQ(named[0].model, "/models/c,d");
  EXPECT_EQ(named[1].names, Names{"e,f=g"});
  EXPECT_EQ(named[2].names, Names{"h,i"});
}

TEST(NamedModels, HaveEachNameOnceAndNoneThatIsEmpty) {
  EXPECT_THROW(named_models({"a,b=x", "b=y"}), UsageError);
  EXPECT_THROW(named_models({"a,a=x"}), UsageError);
  EXPECT_THROW(named_models({"a,=x"}), UsageError);
  EXPECT_THROW(named_models({"=x"}), UsageError);
}

}  // namespace
}  // namespace talon::serve_options_test
