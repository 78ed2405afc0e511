#include <gtest/gtest.h>

#include "test_server.h"

namespace talon::test::fields_test {
namespace {

TestServer& server() {
  static TestServer server;
  return server;
}

struct BadField {
  const char* path;
  const char* change;  // merged into a request that would be answered
  const char* param;
  const char* message;  // begins so
};

const char* const kChat = "/v1/chat/completions";
const char* const kCompletion = "/v1/completions";

const BadField kBadFields[] = {
    {kCompletion, R"({"temperature": "hot"})", "temperature",
     "temperature: expected a number from 0 to 100, found \"hot\""},
    {kCompletion, R"({"temperature": -1})", "temperature", "temperature: expected"},
    {kCompletion, R"({"temperature": 1e400})", "", "body: expected JSON text"},
    {kCompletion, R"({"top_p": 1.5})", "top_p", "top_p: expected a number from 0 to 1, found 1.5"},
    {kCompletion, R"({"top_k": 1.5})", "top_k", "top_k: expected a whole number"},
    {kCompletion, R"({"min_p": []})", "min_p",
     "min_p: expected a number from 0 to 1, found an array"},
    {kCompletion, R"({"typical_p": 0})", "typical_p", "typical_p: expected"},
    {kCompletion, R"({"presence_penalty": true})", "presence_penalty",
     "presence_penalty: expected"},
    {kCompletion, R"({"frequency_penalty": 101})", "frequency_penalty",
     "frequency_penalty: expected"},
    {kCompletion, R"({"repetition_penalty": 0})", "repetition_penalty",
     "repetition_penalty: expected"},
    {kCompletion, R"({"n": 0})", "n", "n: expected a whole number from 1 to 16, found 0"},
    {kCompletion, R"({"n": 17})", "n", "n: expected a whole number from 1 to 16, found 17"},
    {kCompletion, R"({"n": 18446744073709551615})", "n", "n: expected a whole number"},
    {kCompletion, R"({"max_tokens": 0})", "max_tokens", "max_tokens: expected"},
    {kCompletion, R"({"max_completion_tokens": "x"})", "max_completion_tokens",
     "max_completion_tokens"},
    {kCompletion, R"({"min_tokens": 9, "max_tokens": 8})", "min_tokens", "min_tokens: expected"},
    {kCompletion, R"({"seed": 1.5})", "seed",
     "seed: expected a whole number from -9223372036854775808 to 18446744073709551615, found 1.5"},
    {kCompletion, R"({"stop": 5})", "stop", "stop: expected a text or at most 16 texts, found 5"},
    {kCompletion, R"({"stop": ""})", "stop", "stop: expected a text that is not empty"},
    {kCompletion, R"({"stop": ["a", 1]})", "stop[1]",
     "stop[1]: expected a text that is not empty, found 1"},
    {kCompletion, R"({"n": 1.5})", "n", "n: expected a whole number"},
    {kCompletion, R"({"seed": 18446744073709551616})", "seed", "seed: expected a whole number"},
    {kCompletion, R"({"stop_token_ids": [512]})", "stop_token_ids[0]",
     "stop_token_ids[0]: expected a token id from 0 to 511, found 512"},
    {kCompletion, R"({"logit_bias": {"x": 1}})", "logit_bias", "logit_bias: expected token ids"},
    {kCompletion, R"({"logit_bias": {"512": 1}})", "logit_bias", "logit_bias: expected token ids"},
    {kCompletion, R"({"logit_bias": {"5": 101}})", "logit_bias.5",
     "logit_bias.5: expected a number"},
    {kCompletion, R"({"logit_bias": []})", "logit_bias", "logit_bias: expected an object"},
    {kCompletion, R"({"ignore_eos": 1})", "ignore_eos",
     "ignore_eos: expected true or false, found 1"},
    {kCompletion, R"({"stream": "yes"})", "stream", "stream: expected true or false"},
    {kCompletion, R"({"stream_options": true})", "stream_options",
     "stream_options: expected an object"},
    {kCompletion, R"({"stream_options": {"include_usage": 1}})", "stream_options.include_usage",
     "stream_options.include_usage: expected true or false"},
    {kCompletion, R"({"cache_salt": 1})", "cache_salt", "cache_salt: expected a text, found 1"},
    {kCompletion, R"({"priority": "high"})", "priority", "priority: expected a whole number"},
    {kCompletion, R"({"user": 5})", "user", "user: expected a text"},
    {kCompletion, R"({"model": 5})", "model", "model: expected a text"},
    {kCompletion, R"({"prompt": 5})", "prompt",
     "prompt: expected a text or a list of token ids, found 5"},
    {kCompletion, R"({"prompt": null})", "prompt", "prompt: expected a text"},
    {kCompletion, R"({"prompt": [1, "a"]})", "prompt[1]", "prompt[1]: expected a token id"},
    {kCompletion, R"({"prompt": [[1], [-1]]})", "prompt[1][0]",
     "prompt[1][0]: expected a token id"},
    {kCompletion, R"({"prompt": []})", "prompt", "prompt: expected at least one token, found none"},
    {kCompletion, R"({"n": 16, "prompt": ["a", "b", "c", "d", "e"]})", "prompt",
     "prompt: expected at most 4 prompts, for whose answers the queue has room, found an array"},
    {kCompletion, R"({"parse_special": 0})", "parse_special",
     "parse_special: expected true or false, found 0"},
    {kCompletion, R"({"echo": true})", "echo", "echo: expected false, found true"},
    {kCompletion, R"({"suffix": "x"})", "suffix", "suffix: expected none, found \"x\""},
    {kCompletion, R"({"best_of": 3})", "best_of", "best_of: expected the same as n, found 3"},
    {kCompletion, R"({"logprobs": 21})", "logprobs",
     "logprobs: expected a whole number from 0 to 20"},
    {kCompletion, R"({"logprobs": true})", "logprobs", "logprobs: expected a whole number"},
    {kCompletion, R"({"talon": 1})", "talon", "talon: expected an object, found 1"},
    {kCompletion, R"({"talon": {"draft": "x"}})", "talon.draft",
     "talon.draft: expected one of drafter"},
    {kCompletion, R"({"talon": {"drafter": 1}})", "talon.drafter",
     "talon.drafter: expected a text"},
    {kCompletion, R"({"talon": {"drafter": "x"}})", "talon.drafter", "talon.drafter: "},
    {kCompletion, R"({"talon": {"drafter": "ngram:min=1"}})", "talon.drafter",
     "talon.drafter: ngram: no option \"min\""},
    {kCompletion, R"({"talon": {"drafter": "ngram", "policy": "fixed:min=1"}})", "talon.policy",
     "talon.policy: fixed: takes no options, found \"min\""},
    {kCompletion, R"({"talon": {"policy": "x"}})", "talon.policy", "talon.policy: "},
    {kCompletion, R"({"talon": {"verify": "x"}})", "talon.verify", "talon.verify: "},
    {kCompletion, R"({"talon": {"drafter": "eagle3:head=/etc/passwd"}})", "talon.drafter",
     "talon.drafter: expected a name and options of numbers and words"},
    {kCompletion, R"({"talon": {"drafter": "draft:model=self"}})", "talon.drafter",
     "talon.drafter: expected options without model=, which is the server's to say, found"},
    {kCompletion, R"({"talon": {"drafter": "suffix+draft:skip=2"}})", "talon.drafter",
     "talon.drafter: expected options without skip="},
    {kCompletion, R"({"talon": {"drafter": "eagle3:taps=1"}})", "talon.drafter",
     "talon.drafter: expected options without taps="},
    {kCompletion, R"({"talon": {"drafter": "draft"}})", "talon.drafter",
     "talon.drafter: draft: needs model=PATH"},
    {kCompletion, R"({"talon": {"drafter": "suffix:nodes"}})", "talon.drafter",
     "talon.drafter: options"},
    {kCompletion, R"({"talon": {"drafter": "eagle2:tree=paths.json"}})", "talon.drafter",
     "talon.drafter: expected tree= mc_sim_7b_63, "},
    {kCompletion, R"({"talon": {"drafter": "eagle2:tree=chain"}})", "talon.drafter",
     "talon.drafter: eagle2: needs head=PATH"},
    {kCompletion, R"({"talon": {"verify": "lantern:codebook=vq.safetensors"}})", "talon.verify",
     "talon.verify: expected options without codebook="},
    {kCompletion, R"({"talon": {"verify": "lantern:k=10,lambda=2"}})", "talon.verify",
     "talon.verify: lantern: option codebook: expected the file of an image tokenizer"},
    {kCompletion, R"({"talon": {"drafter": "eagle3:head=passwd"}})", "talon.drafter",
     "talon.drafter: expected options without head="},
    {kCompletion, R"({"talon": {"deadline_ms": 0}})", "talon.deadline_ms",
     "talon.deadline_ms: expected"},
    {kChat, R"({"prediction": "x"})", "prediction", "prediction: expected an object, found \"x\""},
    {kChat, R"({"prediction": {"type": "picture", "content": "x"}})", "prediction.type",
     "prediction.type: expected content, found \"picture\""},
    {kChat, R"({"prediction": {"type": "content", "content": 5}})", "prediction.content",
     "prediction.content: expected a text or at most"},
    {kCompletion, R"({"prediction": {"type": "content"}})", "prediction.content",
     "prediction.content: expected a text or text parts, found none"},
    {kChat, R"({"messages": null})", "messages",
     "messages: expected an array of at least one message"},
    {kChat, R"({"messages": []})", "messages",
     "messages: expected an array of at least one message"},
    {kChat, R"({"messages": "hi"})", "messages", "messages: expected an array"},
    {kChat, R"({"messages": [5]})", "messages[0]", "messages[0]: expected an object, found 5"},
    {kChat, R"({"messages": [{"content": "x"}]})", "messages[0].role",
     "messages[0].role: expected one of"},
    {kChat, R"({"messages": [{"role": "king", "content": "x"}]})", "messages[0].role",
     "messages[0].role: expected one of system, developer, user, assistant, tool, found \"king\""},
    {kChat, R"({"messages": [{"role": "user"}]})", "messages[0].content",
     "messages[0].content: expected"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "functions": [{"name": "a"}]})",
     "functions", "functions: expected none: tools have them, found an array of 1 value"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "modalities": ["text", "audio"]})",
     "modalities[1]", "modalities[1]: expected text, found \"audio\""},
    {kChat, R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content",
     "messages[0].content: expected a text or at most 1024 text parts, found 5"},
    {kChat, R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
     "messages[0].content[0].type",
     "messages[0].content[0].type: expected text, found \"image_url\""},
    {kChat, R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})",
     "messages[0].content[0].text", "messages[0].content[0].text: expected a text, found none"},
    {kChat, R"({"top_logprobs": 3})", "top_logprobs", "top_logprobs: expected logprobs to be true"},
    {kChat, R"({"logprobs": true, "top_logprobs": 21})", "top_logprobs", "top_logprobs: expected"},
    {kChat, R"({"logprobs": 5})", "logprobs", "logprobs: expected true or false, found 5"},
    {kChat, R"({"tools": [{"type": "function"}]})", "tools[0].function",
     "tools[0].function: expected an object"},
    {kChat, R"({"tools": [{"type": "retrieval"}]})", "tools[0].type",
     "tools[0].type: expected \"function\""},
    {kChat, R"({"tools": [{"type": "function", "function": {"name": "a b"}}]})",
     "tools[0].function.name", "tools[0].function.name: expected a name"},
    {kChat, R"({"tools": [{"type": "function", "function": {"name": "a"}}], "tool_choice": "b"})",
     "tool_choice",
     "tool_choice: expected none, auto, required or an object with the name of a tool"},
    {kChat, R"({"parallel_tool_calls": "yes"})", "parallel_tool_calls",
     "parallel_tool_calls: expected true or false"},
    {kChat, R"({"response_format": {"type": "json_schema", "json_schema": {"name": 5}}})",
     "response_format.json_schema.name", "response_format.json_schema.name: expected a text"},
    {kChat, R"({"response_format": {"type": "json_schema", "json_schema": {"strict": "yes"}}})",
     "response_format.json_schema.strict", "response_format.json_schema.strict: expected true"},
    {kChat, R"({"json_schema": {"$ref": "#"}})", "json_schema",
     "json_schema: grammar: expected rules that end"},
    {kChat, R"({"tool_choice": "required"})", "tool_choice",
     "tool_choice: expected tools beside it"},
    {kChat, R"({"response_format": {"type": "xml"}})", "response_format.type",
     "response_format.type: expected text, json_object or json_schema"},
    {kChat, R"({"response_format": {"type": "json_schema", "json_schema": {"schema": 3}}})",
     "response_format.json_schema.schema",
     "response_format.json_schema.schema: expected a JSON schema"},
    {kChat,
     R"({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "x"}}}})",
     "response_format.json_schema.schema", "response_format.json_schema.schema: grammar:"},
    {kChat, R"({"structured_outputs": {"regex": "(a"}})", "structured_outputs.regex",
     "structured_outputs.regex: grammar:"},
    {kChat, R"({"structured_outputs": {"regexp": "a"}})", "structured_outputs.regexp",
     "structured_outputs.regexp: "},
    {kChat, R"({"structured_outputs": {"json": {}, "whitespace_pattern": "[ ]?"}})",
     "structured_outputs.whitespace_pattern",
     "structured_outputs.whitespace_pattern: expected none"},
    {kChat, R"({"structured_outputs": {"json": {}, "disable_additional_properties": true}})",
     "structured_outputs.disable_additional_properties",
     "structured_outputs.disable_additional_properties: expected false"},
    {kChat, R"({"structured_outputs": {"json": {}, "backend": 5}})", "structured_outputs.backend",
     "structured_outputs.backend: expected a text, found 5"},
    {kChat, R"({"structured_outputs": {"regex": "a", "choice": ["b"]}})",
     "structured_outputs.choice", "structured_outputs.choice: expected one form"},
    {kChat, R"({"grammar": "root ::= word", "response_format": {"type": "json_object"}})",
     "grammar", "grammar: expected one form of the answer"},
    {kChat, R"({"grammar": "root ::= word"})", "grammar", "grammar: grammar: expected a rule"},
    {kChat, R"({"chat_template_kwargs": 5})", "chat_template_kwargs",
     "chat_template_kwargs: expected"},
    {kChat, R"({"chat_template_kwargs": {"messages": []}})", "chat_template_kwargs.messages",
     "chat_template_kwargs.messages: expected no such entry"},
    {kChat, R"({"reasoning_effort": 5})", "reasoning_effort", "reasoning_effort: expected a text"},
    {kChat, R"({"reasoning_effort": "AAA"})", "reasoning_effort",
     "reasoning_effort: expected one of none, minimal, low, medium, high, xhigh, max, found"},
    {"/tokenize", R"({"content": 5})", "content", "content: expected a text, found 5"},
    {"/detokenize", R"({"tokens": [1, 512]})", "tokens[1]", "tokens[1]: expected a token id"},
    {"/detokenize", R"({"tokens": "x"})", "tokens", "tokens: expected an array"},
    {"/apply-template", R"({"messages": [{}]})", "messages[0].role", "messages[0].role: expected"},
};

Json good_request(const std::string& path) {
  if (path == kCompletion) return {{"prompt", "Tom"}, {"max_tokens", 8}};
  return {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 8}};
}

TEST(BadFields, AreRefusedByNameWithWhatWasExpectedAndFound) {
  for (const BadField& bad : kBadFields) {
    // The text is merged by hand: not every change is JSON that a parser takes.
    std::string body = good_request(bad.path).dump();
    const Json change = Json::parse(bad.change, nullptr, false);
    if (change.is_discarded()) {
      body = bad.change;
    } else {
      Json merged = Json::parse(body);
      for (const auto& [name, value] : change.items()) merged[name] = value;
      body = merged.dump();
    }
    const Reply reply = Client(server().port()).post(bad.path, body);
    EXPECT_EQ(reply.status, 400) << bad.change << " " << reply.body;
    const Json error = reply.json()["error"];
    EXPECT_EQ(error["type"], "invalid_request_error") << bad.change;
    EXPECT_EQ(error["param"].is_null() ? "" : error["param"], bad.param) << bad.change;
    EXPECT_TRUE(error["message"].get<std::string>().starts_with(bad.message))
        << bad.change << " " << error["message"];
  }
  EXPECT_TRUE(server().becomes_idle());
}

TEST(BadFields, AStopTextTooLongIsRefusedByTheNameOfItsField) {
  Json body = good_request(kCompletion);
  body["stop"] = {"a", std::string(4097, 'x')};
  const Json error = server().post(kCompletion, body).json()["error"];
  EXPECT_EQ(error["param"], "stop[1]");
  EXPECT_EQ(error["message"], "stop[1]: expected at most 4096 bytes, found 4097");
}

/// However many the server's flag allows, the engine takes no more.
TEST(BadFields, TooManyStopTextsAreRefusedByTheNameOfTheirField) {
  TestServer::Options options;
  options.limits.stop_texts = 1000;
  TestServer generous(options);
  Json body = good_request(kCompletion);
  body["stop"] = std::vector<std::string>(64, "no such text");
  EXPECT_EQ(generous.post(kCompletion, body).status, 200);
  body["stop"].push_back("another");
  const Json error = generous.post(kCompletion, body).json()["error"];
  EXPECT_EQ(error["param"], "stop");
  EXPECT_EQ(error["message"],
            "stop: expected a text or at most 64 texts, found an array of 65 values");
}

TEST(Fields, TakeWholeNumbersHoweverTheyAreWritten) {
  Json body = good_request(kCompletion);
  body["max_tokens"] = 3.0;
  body["n"] = 1.0;
  Json answer = server().post(kCompletion, body).json();
  EXPECT_EQ(answer["usage"]["completion_tokens"], 3) << answer;
  body["seed"] = 18446744073709551615U;  // as `talon run --seed` takes it
  answer = server().post(kCompletion, body).json();
  EXPECT_EQ(answer["talon"]["seed"], 18446744073709551615U) << answer;
}

TEST(Fields, BoundACompletionByEitherNameOfItsLength) {
  Json body = {{"prompt", "Once"}, {"ignore_eos", true}};
  const auto tokens = [&] {
    return server().post(kCompletion, body).json()["usage"]["completion_tokens"];
  };
  EXPECT_EQ(tokens(), 16);
  body["max_completion_tokens"] = 4;
  EXPECT_EQ(tokens(), 4);
  body["max_completion_tokens"] = 20;
  EXPECT_EQ(tokens(), 20);
}

TEST(BadFields, ThatOpenAiIgnoresAreIgnored) {
  const Reply reply = server().post(kChat, {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
                                            {"max_tokens", 4},
                                            {"store", true},
                                            {"metadata", {{"a", "b"}}},
                                            {"nobody_knows_this", 5},
                                            {"temperature", nullptr},
                                            {"tools", Json::array()},
                                            {"response_format", {{"type", "text"}}}});
  EXPECT_EQ(reply.status, 200) << reply.body;
}

TEST(BadFields, AModelThatIsNotServedIsNotFound) {
  const Reply reply = server().post(kCompletion, {{"model", "gpt-4"}, {"prompt", "Tom"}});
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(reply.json()["error"]["code"], "model_not_found");
  EXPECT_EQ(reply.json()["error"]["message"], "model: expected one of tiny, found \"gpt-4\"");
}

TEST(BadFields, APromptThatLeavesNoRoomIsTooLong) {
  const Json tokens(std::vector<int>(512, 5));
  const Reply reply = server().post(kCompletion, {{"prompt", tokens}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(reply.json()["error"]["message"],
            "prompt: expected at most 511 tokens, found 512: this model's maximum context length "
            "is 512 tokens");
  const std::string long_text(1 << 20, 'a');
  const Reply text = server().post(kCompletion, {{"prompt", long_text}});
  EXPECT_EQ(text.status, 400);
  EXPECT_EQ(text.json()["error"]["code"], "context_length_exceeded");
  Json chat = good_request(kChat);
  chat["messages"][0]["content"] = long_text;
  const Json error = server().post(kChat, chat).json()["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_EQ(error["param"], "messages");
}

/// The tokens of a text take many times its bytes.
TEST(BadFields, TextsThatNoPromptCanHoldAreNotCounted) {
  const std::string long_text(1 << 20, 'a');
  Json chat = good_request(kChat);
  chat["messages"][0]["content"] = long_text;
  const auto expect_too_long = [](const TestServer& of, const char* path, const Json& body,
                                  const char* param) {
    const Reply reply = of.post(path, body);
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_EQ(reply.json()["error"]["code"], "context_length_exceeded") << path;
    EXPECT_EQ(reply.json()["error"]["param"], param) << path;
  };
  expect_too_long(server(), "/tokenize", {{"content", long_text}}, "content");
  expect_too_long(server(), "/tokenize", {{"prompt", long_text}}, "prompt");
  for (const char* path : {"/tokenize", "/apply-template"}) {
    expect_too_long(server(), path, chat, "messages");
  }
  EXPECT_EQ(server().post("/v1/messages/count_tokens", chat).status, 400);
  const Json tokens(std::vector<int>(513, 5));
  const Json error = server().post("/detokenize", {{"tokens", tokens}}).json()["error"];
  EXPECT_EQ(error["message"],
            "tokens: expected an array of at most 512 values, found an array of 513 values");

  TestServer::Options options;
  options.limits.prompt_tokens = 5;
  const TestServer small(options);
  const std::string text(400, 'a');
  EXPECT_EQ(server().post("/tokenize", {{"content", text}}).status, 200);
  expect_too_long(small, "/tokenize", {{"content", text}}, "content");
  expect_too_long(small, "/v1/completions", {{"prompt", text}}, "prompt");
  chat["messages"][0]["content"] = text;
  expect_too_long(small, "/v1/chat/completions", chat, "messages");
}

/// At every temperature: what was expected is drafted, and the answer is the same.
TEST(Predictions, OfAnAnswerSaveChecksAndChangeNothing) {
  for (const double temperature : {0.0, 1.0}) {
    Json body = {{"messages", {{{"role", "user"}, {"content", "Tell me a story."}}}},
                 {"max_tokens", 80},
                 {"temperature", temperature},
                 {"seed", 7},
                 {"talon", {{"policy", "fixed"}}}};
    const auto ask = [&] { return server().post(kChat, body).json(); };
    const Json plain = ask();
    const std::string text = plain["choices"][0]["message"]["content"];
    const auto checks = [](const Json& answer) {
      const Json& timings = answer["timings"];
      return timings["predicted_n"].get<int>() - 1 - timings["draft_n_accepted"].get<int>();
    };
    for (const Json& content : {Json(text), Json({{{"type", "text"}, {"text", text}}})}) {
      body["prediction"] = {{"type", "content"}, {"content", content}};
      const Json helped = ask();
      EXPECT_EQ(helped["choices"][0]["message"]["content"], text);
      EXPECT_LT(3 * checks(helped), checks(plain)) << helped["timings"];
      const Json details = helped["usage"]["completion_tokens_details"];
      EXPECT_GE(details["accepted_prediction_tokens"], 70) << details;
      EXPECT_LE(details["rejected_prediction_tokens"], 3) << details;
    }
    body["prediction"]["content"] = "Another text.";
    const Json other = ask();
    EXPECT_EQ(other["choices"][0]["message"]["content"], text);
    EXPECT_GT(other["usage"]["completion_tokens_details"]["rejected_prediction_tokens"], 0);
  }
}

TEST(BadFields, AChatNeedsATemplate) {
  TestServer::Options options;
  options.has_chat = false;
  TestServer plain(options);
  const Reply reply = plain.post(kChat, good_request(kChat));
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["code"], "no_chat_template");
  EXPECT_EQ(reply.json()["error"]["param"], "messages");
  EXPECT_EQ(plain.post("/v1/responses", {{"input", "Hi"}}).json()["error"]["param"], "input");
}

}  // namespace
}  // namespace talon::test::fields_test
