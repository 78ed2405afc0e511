#include "runtime/method.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace talon::method_test {
namespace {

using Methods = std::vector<std::string>;

TEST(Methods, AreSplitAtCommasThatBeginAMethodOnly) {
  EXPECT_EQ(split_methods("none"), Methods{"none"});
  EXPECT_EQ(split_methods("none,ngram"), (Methods{"none", "ngram"}));
  EXPECT_EQ(split_methods("ngram:nodes=8,levels=4,none,ngram:nodes=2"),
            (Methods{"ngram:nodes=8,levels=4", "none", "ngram:nodes=2"}));
  EXPECT_EQ(split_methods("eagle2@policy=ddd:threshold=0.1,every=2,none@policy=fixed"),
            (Methods{"eagle2@policy=ddd:threshold=0.1,every=2", "none@policy=fixed"}));
  EXPECT_EQ(split_methods("a:x=1,y=2@policy=p,b@verify=v"),
            (Methods{"a:x=1,y=2@policy=p", "b@verify=v"}));
  EXPECT_EQ(split_methods(""), Methods{});
  for (const char* list :
       {",", "none,", ",none", "none,,ngram", "ngram:nodes=8,", "ngram:a=1,,b=2"})
    EXPECT_THROW(split_methods(list), UsageError) << list;
}

TEST(Methods, NameDrafterPolicyAndRule) {
  const MethodText method = parse_method("eagle3:nodes=8+ngram@policy=ddd:a=1,b=2@verify=typical");
  EXPECT_EQ(method.text, "eagle3:nodes=8+ngram@policy=ddd:a=1,b=2@verify=typical");
  EXPECT_EQ(method.drafter, "eagle3:nodes=8+ngram");
  EXPECT_EQ(method.policy, "ddd:a=1,b=2");
  EXPECT_EQ(method.verify, "typical");
  EXPECT_EQ(parse_method("ngram").policy, "");
}

TEST(Methods, LeaveAtSignsInPathsAlone) {
  const MethodText method = parse_method("eagle2:head=/a@b/c@d@policy=fixed");
  EXPECT_EQ(method.drafter, "eagle2:head=/a@b/c@d");
  EXPECT_EQ(method.policy, "fixed");
}

TEST(Methods, RefuseSettingsThatDoNotExist) {
  for (const char* text :
       {"ngram@polcy=fixed", "ngram@policy=", "ngram@policy=a@policy=b", "@policy=fixed", ""}) {
    EXPECT_THROW(parse_method(text), UsageError) << text;
  }
}

}  // namespace
}  // namespace talon::method_test
