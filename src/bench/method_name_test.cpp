#include "bench/method_name.h"

#include <gtest/gtest.h>

namespace talon::method_name_test {
namespace {

TEST(ShortMethodName, LeavesOutHeadsAndFolders) {
  const std::pair<const char*, const char*> names[] = {
      {"eagle3:head=models/a,topk=1+suffix:nodes=8", "eagle3:topk=1+suffix:nodes=8"},
      {"eagle3:topk=2,head=models/a@policy=ddd", "eagle3:topk=2@policy=ddd"},
      {"draft:model=downloads/s/s.bin,stage=suffix", "draft:model=s.bin,stage=suffix"},
      {"draft:model=self,skip=8/10", "draft:model=self,skip=8/10"},
      {"draft:model=self,stage=eagle3,stage_head=models/a", "draft:model=self,stage=eagle3"},
      {"peer:llama.cpp:ngram-simple", "peer:llama.cpp:ngram-simple"},
      {"peer:llama.cpp@source:draft-eagle3", "peer:llama.cpp@source:draft-eagle3"},
      {"eagle2:head=a@policy=static:children=4/2@verify=lantern:codebook=m/vq.pt,k=10,lambda=2",
       "eagle2@policy=static:children=4/2@verify=lantern:k=10,lambda=2"},
      {"none", "none"},
  };
  for (const auto& [method, name] : names) EXPECT_EQ(short_method_name(method), name);
}

}  // namespace
}  // namespace talon::method_name_test
