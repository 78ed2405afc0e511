#include "serve/tools/tool_use.h"

#include <gtest/gtest.h>

namespace talon::tool_use_test {
namespace {

TEST(Calls, HaveTheIdsOfTheFamilyWhereATemplateWritesNothingElse) {
  std::vector<ChatMessage> messages = {{"user", "a"}, {"assistant", ""}, {"tool", "b"}};
  for (const char* id : {"call_1", "call_2"})
    messages[1].more["tool_calls"].push_back(call_for_template(id, "get", "{}"));
  messages[2].more["tool_call_id"] = "call_2";
  name_calls_by_ids(messages);
  EXPECT_EQ(messages[1].more["tool_calls"][0]["id"], "functions.get:0");
  EXPECT_EQ(messages[1].more["tool_calls"][1]["id"], "functions.get:1");
  EXPECT_EQ(messages[2].more["tool_call_id"], "functions.get:1");
}

TEST(Calls, HaveIdsOfNineLettersAndDigitsForATemplateThatTakesNoOthers) {
  const std::string foreign = "toolu_0123456789abcdef01234567";
  std::vector<ChatMessage> messages = {{"user", "a"}, {"assistant", ""}, {"tool", "b"}};
  for (const std::string& id : {std::string("a1B2c3D4e"), foreign, std::string("call_9-ab")})
    messages[1].more["tool_calls"].push_back(call_for_template(id, "get", "{}"));
  messages[2].more["tool_call_id"] = foreign;
  shorten_call_ids(messages);
  const OrderedJson& calls = messages[1].more["tool_calls"];
  EXPECT_EQ(calls[0]["id"], "a1B2c3D4e");
  EXPECT_EQ(messages[2].more["tool_call_id"], calls[1]["id"]);
  EXPECT_NE(calls[1]["id"], calls[2]["id"]);
  for (const OrderedJson& call : calls) {
    const std::string id = call["id"];
    EXPECT_TRUE(testing::internal::RE::FullMatch(id, "[A-Za-z0-9]{9}")) << id;
  }
}

}  // namespace
}  // namespace talon::tool_use_test
