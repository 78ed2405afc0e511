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

TEST(DrafterWeights, AreNamedByNamesAndTheOptionsThatSayWhich) {
  EXPECT_EQ(weights_of("eagle3"), "eagle3");
  EXPECT_EQ(weights_of("eagle3:nodes=8,levels=2+suffix:nodes=3"), "eagle3");
  EXPECT_EQ(weights_of("suffix+medusa:topk=3+eagle3:window=64+medusa"), "eagle3+medusa");
  EXPECT_EQ(weights_of("mtp"), "mtp");
  EXPECT_EQ(weights_of("suffix:nodes=8+ngram"), "none");
  EXPECT_EQ(weights_of("draft:model=self,levels=3,skip=1/2,stage=suffix"),
            "draft:model=self,skip=1/2");
  EXPECT_EQ(weights_of("eagle3:head=a+b.bin,topk=3,taps=1/2"), "eagle3:head=a+b.bin,taps=1/2");
}

TEST(DrafterWeights, OfTheServersOwnAreThoseOfItsName) {
  const char* own = "eagle3:head=h,nodes=16+suffix:nodes=3";
  EXPECT_EQ(with_weights_of(own, "eagle3"), "eagle3:head=h");
  EXPECT_EQ(with_weights_of(own, "eagle3:nodes=8"), "eagle3:nodes=8,head=h");
  EXPECT_EQ(with_weights_of(own, "suffix+eagle3:topk=2+ngram"),
            "suffix+eagle3:topk=2,head=h+ngram");
  EXPECT_EQ(with_weights_of(own, "medusa:topk=2"), "medusa:topk=2");
  EXPECT_EQ(with_weights_of("suffix", "eagle3"), "eagle3");
  EXPECT_THROW(with_weights_of(own, "eagle3:nodes"), UsageError);
  EXPECT_THROW(with_weights_of(own, ""), UsageError);
}

}  // namespace
}  // namespace talon::method_test
