#include <gtest/gtest.h>

#include "test_server.h"

// Fields of vLLM, SGLang and llama.cpp.
namespace talon::test::foreign_fields_test {
namespace {

TestServer& server() {
  static TestServer server;
  return server;
}

struct ForeignValue {
  const char* name;
  const char* refused;
  const char* passes;  // beside null
  const char* expected;
};

constexpr ForeignValue kForeign[] = {
    {"allowed_token_ids", "[1, 2]", "null", "none"},
    {"bad_words", R"(["the"])", "[]", "none"},
    {"include_reasoning", "false", "true", "true"},
    {"include_stop_str_in_output", "true", "false", "false"},
    {"logits_processors", R"(["x"])", "[]", "none"},
    {"logprob_token_ids", "[5]", "null", "none"},
    {"prompt_embeds", R"("x")", "[]", "none"},
    {"prompt_logprobs", "1", "null", "none"},
    {"repetition_detection", R"({"max_pattern_size": 4})", "{}", "none"},
    {"return_tokens_as_token_ids", "true", "false", "false"},
    {"skip_special_tokens", "false", "true", "true"},
    {"thinking_token_budget", "0", "-1", "-1"},
    {"truncate_prompt_tokens", "-1", "null", "none"},
    {"use_beam_search", "true", "false", "false"},
    {"custom_logit_processor", R"("x")", R"("")", "none"},
    {"lora_path", R"("x")", R"("")", "none"},
    {"no_stop_trim", "1", "false", "false"},
    {"separate_reasoning", "false", "true", "true"},
    {"stop_regex", R"(["x"])", "[]", "none"},
    {"adaptive_target", "0", "-1.0", "-1"},
    {"dry_multiplier", "0.8", "0", "0"},
    {"dynatemp_range", "0.5", "0.0", "0"},
    {"lora", R"([{"id": 0, "scale": 0.5}])", "[]", "none"},
    {"min_keep", "2", "0", "0"},
    {"mirostat", "2", "0", "0"},
    {"n_indent", "4", "0", "0"},
    {"n_probs", "3", "0", "0"},
    {"parse_tool_calls", "false", "true", "true"},
    {"reasoning_budget_tokens", "512", "-1", "-1"},
    {"t_max_predict_ms", "10", "-1", "0"},
    {"thinking_budget_tokens", "512", "-1", "-1"},
    {"top_n_sigma", "1", "-1.0", "0"},
    {"xtc_probability", R"("0.5")", "0", "0"},
};

const Json kChat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 1}};
const Json kCompletion = {{"prompt", "Tom"}, {"max_tokens", 1}};
const Json kResponse = {{"input", "Hi"}, {"max_output_tokens", 1}};

Json with(Json body, const std::string& name, const Json& value) {
  body[name] = value;
  return body;
}

TEST(ForeignFields, ThatWouldChangeTheAnswerAreRefusedByTheirNames) {
  for (const ForeignValue& field : kForeign) {
    const Json refused = Json::parse(field.refused);
    for (const auto& [path, body] :
         {std::pair("/v1/completions", kCompletion), std::pair("/v1/chat/completions", kChat),
          std::pair("/v1/responses", kResponse)}) {
      const Reply reply = server().post(path, with(body, field.name, refused));
      EXPECT_EQ(reply.status, 400) << path << field.name << reply.body;
      const Json error = reply.json()["error"];
      EXPECT_EQ(error["param"], field.name) << path;
      const std::string begin = fmt::format("{}: expected {}, found ", field.name, field.expected);
      EXPECT_TRUE(error["message"].get<std::string>().starts_with(begin)) << error;
    }
    const Reply message = server().post("/v1/messages", with(kChat, field.name, refused));
    EXPECT_EQ(message.status, 400) << field.name;
    EXPECT_NE(message.body.find(field.name), std::string::npos) << message.body;
  }
}

TEST(ForeignFields, ThatChangeNothingPass) {
  Json body = kCompletion;
  for (const ForeignValue& field : kForeign) {
    body[field.name] = Json::parse(field.passes);
    EXPECT_EQ(server().post("/v1/completions", body).status, 200) << field.name;
    const Json null = with(kCompletion, field.name, nullptr);
    EXPECT_EQ(server().post("/v1/completions", null).status, 200) << field.name;
  }
}

TEST(ForeignFields, OfTheTemplateAreRefusedWhereverItIsUsed) {
  const std::pair<std::string, Json> fields[] = {{"chat_template", "{{ messages }}"},
                                                 {"documents", Json::array({{{"text", "a"}}})}};
  for (const auto& [name, value] : fields) {
    for (const char* path : {"/v1/chat/completions", "/v1/messages", "/tokenize", "/apply-template",
                             "/v1/messages/count_tokens"}) {
      const Reply reply = server().post(path, with(kChat, name, value));
      EXPECT_EQ(reply.status, 400) << path << reply.body;
      const std::string message = reply.json()["error"]["message"];
      EXPECT_TRUE(message.starts_with(name + ": expected none")) << message;
    }
    const Json response = with(kResponse, name, value);
    EXPECT_EQ(server().post("/v1/responses", response).json()["error"]["param"], name);
  }
  Json harmless = kChat;
  harmless["chat_template"] = "";
  harmless["documents"] = Json::array();
  harmless["echo"] = false;
  EXPECT_EQ(server().post("/v1/chat/completions", harmless).status, 200);
  harmless["echo"] = true;
  EXPECT_EQ(server().post("/v1/chat/completions", harmless).json()["error"]["param"], "echo");
}

std::string text_with(const Json& more) {
  Json body = {{"prompt", "Once upon a time"}, {"max_tokens", 80}, {"temperature", 0}};
  body.update(more);
  return server().post("/v1/completions", body).json()["choices"][0]["text"];
}

TEST(ForeignFields, OfLlamaPenalizeWhatIsRepeatedAmongTheLastTokens) {
  const std::string all = text_with({{"repetition_penalty", 3}});
  const std::string plain = text_with(Json::object());
  EXPECT_NE(all, plain);
  EXPECT_EQ(text_with({{"repeat_penalty", 3}, {"repeat_last_n", -1}}), all);
  EXPECT_EQ(text_with({{"repeat_penalty", 3}, {"repeat_last_n", 0}}), plain);
  EXPECT_EQ(text_with({{"repeat_penalty", 1}, {"repeat_last_n", 64}}), plain);
  EXPECT_EQ(text_with({{"repeat_penalty", 1}, {"repetition_penalty", 3}}), all);
  EXPECT_NE(text_with({{"repeat_penalty", 3}, {"repeat_last_n", 1}}), all);
  EXPECT_EQ(text_with({{"repeat_penalty", 3}}),
            text_with({{"repeat_penalty", 3}, {"repeat_last_n", 64}}));
}

/// Whether `samplers` of a request with these is taken; else it is refused by its name.
bool takes_samplers(const Json& samplers, const Json& more) {
  Json body = with(kCompletion, "samplers", samplers);
  body.update(more);
  const Reply reply = server().post("/v1/completions", body);
  if (reply.status != 200) {
    EXPECT_EQ(reply.json()["error"]["param"], "samplers") << reply.body;
  }
  return reply.status == 200;
}

const Json kLlamaOrder = {"penalties", "dry",   "top_n_sigma", "top_k",      "typ_p",
                          "top_p",     "min_p", "xtc",         "temperature"};

TEST(ForeignFields, OfLlamaMayOrderSamplersThatAreOffInAnyWay) {
  EXPECT_TRUE(takes_samplers(kLlamaOrder, Json::object()));
  EXPECT_TRUE(takes_samplers({"temperature", "top_p", "penalties"}, {{"top_p", 0.9}}));
  EXPECT_TRUE(takes_samplers("tsmxpyked", {{"top_p", 0.9}}));
  EXPECT_TRUE(takes_samplers("kt", {{"temperature", 0.7}, {"top_k", 40}}));
  EXPECT_TRUE(takes_samplers("mpt", {{"temperature", 0}, {"top_p", 0.9}, {"min_p", 0.1}}));
  EXPECT_TRUE(takes_samplers(Json::array(), Json::object()));
  EXPECT_TRUE(takes_samplers({"min_p", "top_k"}, {{"top_k", 40}, {"min_p", 0.1}}));
  EXPECT_TRUE(takes_samplers({"temperature", "top_p"}, {{"temperature", 0.7}, {"top_p", 0.9}}));
}

/// Its clients send it with every request, whatever its values are.
TEST(ForeignFields, OfLlamaTakeItsOwnOrderOfSamplersForNone) {
  const Json usual = {{"temperature", 0.8}, {"top_k", 40}, {"top_p", 0.95}, {"min_p", 0.05}};
  EXPECT_TRUE(takes_samplers(kLlamaOrder, usual));
  EXPECT_TRUE(takes_samplers("edskypmxt", usual));
  EXPECT_TRUE(takes_samplers("edkypmxt", usual)) << "of versions without top_n_sigma";
  EXPECT_TRUE(takes_samplers(kLlamaOrder, {{"typical_p", 0.9}, {"temperature", 0}}));
  const Json seeded = with(usual, "seed", 3);
  EXPECT_EQ(text_with(with(seeded, "samplers", kLlamaOrder)), text_with(seeded));
  EXPECT_FALSE(takes_samplers("ekympt", usual)) << "min-p before top-p";
}

TEST(ForeignFields, OfLlamaOrderSamplersAsTheyAreAppliedOrAreRefused) {
  EXPECT_FALSE(takes_samplers({"top_p", "temperature"}, {{"temperature", 0.7}, {"top_p", 0.9}}));
  EXPECT_FALSE(takes_samplers("mt", {{"temperature", 0.7}, {"min_p", 0.1}}));
  EXPECT_FALSE(takes_samplers({"min_p", "top_p"}, {{"top_p", 0.9}, {"min_p", 0.1}}));
  EXPECT_FALSE(takes_samplers("yt", {{"typical_p", 0.9}, {"temperature", 0}}));
  EXPECT_FALSE(takes_samplers(std::string(1 << 20, 't'), {{"temperature", 0.7}})) << "at once";
  EXPECT_FALSE(takes_samplers({"top_k", "penalties"},
                              {{"top_k", 4}, {"presence_penalty", 1}, {"temperature", 1}}));
  EXPECT_FALSE(takes_samplers({"top_k"}, {{"temperature", 0.7}})) << "one that is on is left out";
  EXPECT_FALSE(takes_samplers({"temperature", "temperature"}, {{"temperature", 0.7}}));
  EXPECT_FALSE(takes_samplers("q", Json::object()));
  EXPECT_FALSE(takes_samplers(5, Json::object()));
  Json body = with(kCompletion, "samplers", {"top_p", "temperature"});
  body["temperature"] = body["top_p"] = 0.5;
  const Json error = server().post("/v1/completions", body).json()["error"];
  EXPECT_EQ(error["message"],
            "samplers: expected temperature, top_p in this order, found an array of 2 values");
  body["samplers"][1] = "infill";
  EXPECT_EQ(server().post("/v1/completions", body).json()["error"]["param"], "samplers[1]");
}

TEST(ForeignFields, OfVllmLeaveOutTheStartOfAPrompt) {
  const auto tokens = [](const Json& more) -> int {
    Json body = kCompletion;
    body.update(more);
    return server().post("/v1/completions", body).json()["usage"]["prompt_tokens"];
  };
  const int usual = tokens(Json::object());
  EXPECT_EQ(tokens({{"add_special_tokens", true}}), usual);
  EXPECT_EQ(tokens({{"add_special_tokens", false}}), usual - 1);
}

TEST(ForeignFields, OfLlamaBoundAnAnswerOrDoNot) {
  const auto tokens = [](const Json& more) -> int {
    Json body = {{"prompt", "Once"}, {"ignore_eos", true}};
    body.update(more);
    return server().post("/v1/completions", body).json()["usage"]["completion_tokens"];
  };
  EXPECT_EQ(tokens({{"n_predict", 5}}), 5);
  EXPECT_EQ(tokens({{"n_predict", 5}, {"max_tokens", 9}}), 5);
  const int most = tokens({{"max_tokens", -1}});
  EXPECT_GT(most, 400) << "all of the context";
  EXPECT_EQ(tokens({{"n_predict", -1}, {"max_tokens", 9}}), most);
  for (const Json& wrong : {Json(-2), Json(0), Json(18446744073709551615U)}) {
    const Json body = with(kCompletion, "max_tokens", wrong);
    EXPECT_EQ(server().post("/v1/completions", body).json()["error"]["param"], "max_tokens");
  }
  const Reply message = server().post("/v1/messages", with(kChat, "max_tokens", -1));
  EXPECT_EQ(message.json()["error"]["message"],
            "max_tokens: expected a whole number of at least 1, found -1");
}

TEST(ForeignFields, OfLlamaAskForAnySeed) {
  const auto seed = [](const Json& asked) {
    const Json body = with(kCompletion, "seed", asked);
    return server().post("/v1/completions", body).json()["talon"]["seed"].get<std::uint64_t>();
  };
  EXPECT_NE(seed(-1), seed(-1));
  EXPECT_NE(seed(-1.0), 18446744073709551615U);
  EXPECT_EQ(seed(-2), 18446744073709551614U);
  EXPECT_EQ(seed(18446744073709551615U), 18446744073709551615U);
}

}  // namespace
}  // namespace talon::test::foreign_fields_test
