#include <gtest/gtest.h>

#include "test_server.h"

// Answers that must look like something, on every path.
namespace talon::test::grammar_paths_test {
namespace {

TestServer& server() {
  static TestServer server;
  return server;
}

const Json kSchema = Json::parse(
    R"({"type": "object", "properties": {"who": {"enum": ["Tim", "Lily"]}, "age": {"type":
        "integer", "minimum": 1, "maximum": 99}}, "required": ["who", "age"],
        "additionalProperties": false})");
// Keys in the order of the schema's text.
constexpr const char* kWritten =
    R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 60, "temperature": 0.9,
        "seed": 3, "response_format": {"type": "json_schema", "json_schema": {"name": "person",
        "strict": true, "schema": {"type": "object", "properties": {"who": {"enum": ["Tim",
        "Lily"]}, "age": {"type": "integer", "minimum": 1, "maximum": 99}}, "required": ["who",
        "age"], "additionalProperties": false}}}})";

/// Whether all of the text is one of the pattern, a POSIX extended regular expression.
bool matches(const std::string& text, const char* pattern) {
  return testing::internal::RE::FullMatch(text, testing::internal::RE(pattern));
}

void expect_person(const std::string& text) {
  EXPECT_TRUE(matches(text, R"re(\{"who": "(Tim|Lily)", "age": [1-9][0-9]?\})re")) << text;
}

Json chat_body() {
  return {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
          {"max_tokens", 60},
          {"temperature", 0.9},
          {"seed", 3}};
}

std::string said(const Json& body) {
  const Reply reply = server().post("/v1/chat/completions", body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  const Json choice = reply.json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  return choice["message"]["content"];
}

TEST(StructuredAnswers, KeepToASchemaAndItsOrder) {
  const Reply reply = Client(server().port()).post("/v1/chat/completions", std::string(kWritten));
  ASSERT_EQ(reply.status, 200) << reply.body;
  expect_person(reply.json()["choices"][0]["message"]["content"]);
}

TEST(StructuredAnswers, AreTheSameWithEveryDrafterAndStreamed) {
  Json body = Json::parse(kWritten);
  body["seed"] = 8;
  std::set<std::string> texts;
  for (const char* drafter : {"none", "suffix", "ngram", "ngram+suffix"}) {
    body["talon"] = {{"drafter", drafter}};
    texts.insert(said(body));
  }
  EXPECT_EQ(texts.size(), 1U);
  body["stream"] = true;
  std::string text;
  for (const Json& event : server().post("/v1/chat/completions", body).events()) {
    for (const Json& choice : event["choices"]) {
      if (choice["delta"].contains("content")) text += choice["delta"]["content"];
    }
  }
  EXPECT_EQ(text, *texts.begin());
}

TEST(StructuredAnswers, TakeTheFieldsOfOtherServers) {
  const auto with = [](const char* name, const Json& value) {
    Json body = chat_body();
    body[name] = value;
    return said(body);
  };
  EXPECT_TRUE(matches(with("structured_outputs", {{"regex", "[ab]{3}"}}), "[ab]{3}"));
  const std::string choice = with("structured_outputs", {{"choice", {"yes", "no"}}});
  EXPECT_TRUE(choice == "yes" || choice == "no") << choice;
  EXPECT_EQ(with("structured_outputs", {{"grammar", "start: \"x\" \"y\""}}), "xy");
  EXPECT_EQ(with("grammar", "root ::= \"ab\" [c]"), "abc");
  const Json person = Json::parse(with("structured_outputs", {{"json", kSchema}}));
  EXPECT_TRUE(person.contains("who"));
  EXPECT_TRUE(Json::parse(with("json_schema", kSchema)).contains("age"));
  EXPECT_EQ(with("response_format",
                 {{"type", "json_schema"}, {"json_schema", {{"schema", {{"const", "one"}}}}}}),
            "\"one\"");
}

TEST(StructuredAnswers, EndWhereNothingMayFollow) {
  for (const char* grammar : {"root ::= \"a\" | \"bc\"", "root ::= \"a\"+ \"b\""}) {
    Json body = chat_body();
    body["grammar"] = grammar;
    const std::string text = said(body);
    body["ignore_eos"] = true;
    EXPECT_EQ(said(body), text);
    body["ignore_eos"] = false;
    body["min_tokens"] = 50;
    EXPECT_EQ(said(body), text);
  }
}

TEST(StructuredAnswers, StandOnEveryPath) {
  Json completion = {{"prompt", "Once"}, {"max_tokens", 60}, {"json_schema", kSchema}};
  const Json completed = server().post("/v1/completions", completion).json();
  EXPECT_TRUE(Json::parse(completed["choices"][0]["text"].get<std::string>()).contains("who"));
  EXPECT_EQ(completed["choices"][0]["finish_reason"], "stop");

  const Json format = {{"type", "json_schema"}, {"name", "person"}, {"schema", kSchema}};
  const Json response = {{"input", "Hi"}, {"text", {{"format", format}}}};
  const Json answered = server().post("/v1/responses", response).json();
  EXPECT_EQ(answered["status"], "completed");
  EXPECT_TRUE(
      Json::parse(answered["output"][0]["content"][0]["text"].get<std::string>()).contains("age"));

  Json message = chat_body();
  message["output_config"] = {{"format", {{"type", "json_schema"}, {"schema", kSchema}}}};
  const Json told = server().post("/v1/messages", message).json();
  EXPECT_EQ(told["stop_reason"], "end_turn");
  EXPECT_TRUE(Json::parse(told["content"][0]["text"].get<std::string>()).contains("who"));
}

TEST(StructuredAnswers, OfManyChoicesAreEachTheirOwn) {
  auto body = nlohmann::ordered_json::parse(kWritten);
  body["n"] = 6;
  body["temperature"] = 2;
  std::set<std::string> texts;
  const Json reply = Client(server().port()).post("/v1/chat/completions", body.dump()).json();
  for (const Json& choice : reply["choices"]) {
    expect_person(choice["message"]["content"]);
    texts.insert(choice["message"]["content"]);
  }
  EXPECT_GT(texts.size(), 1U) << reply;
}

TEST(StructuredAnswers, WhoseBeginningExceedsABoundAreRefusedBeforeTheyBegin) {
  Json body = chat_body();  // an object with more keys than a step may look at
  for (int i = 0; i < 2000; ++i) {
    body["json_schema"]["properties"][std::to_string(i)] = {{"type", "string"}};
  }
  body["json_schema"]["type"] = "object";
  for (const bool streams : {false, true}) {
    body["stream"] = streams;
    const Reply reply = server().post("/v1/chat/completions", body);
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_EQ(reply.json()["error"]["param"], "json_schema");
    EXPECT_EQ(reply.json()["error"]["code"], "invalid_grammar");
  }
}

TEST(StructuredAnswers, ThatExceedABoundLaterAreTheRequestsFault) {
  const Json endless = {{"$ref", "#/$defs/n"},
                        {"$defs",
                         {{"n",
                           {{"type", "object"},
                            {"properties", {{"n", {{"$ref", "#/$defs/n"}}}}},
                            {"required", {"n"}},
                            {"additionalProperties", false}}}}}};
  Json body = chat_body();
  body["json_schema"] = endless;
  const Reply reply = server().post("/v1/chat/completions", body);
  EXPECT_EQ(reply.status, 400) << reply.body;
  EXPECT_EQ(reply.json()["error"]["code"], "invalid_grammar");
}

TEST(StructuredAnswers, HaveASizeThatTheServerBounds) {
  TestServer::Options options;
  options.limits.grammar_bytes = 100;
  TestServer small(options);
  Json body = chat_body();
  body["structured_outputs"] = {{"regex", std::string(101, 'a')}};
  const Json error = small.post("/v1/chat/completions", body).json()["error"];
  EXPECT_EQ(error["param"], "structured_outputs.regex");
  EXPECT_EQ(error["message"], "structured_outputs.regex: expected at most 100 bytes, found 101");
}

/// Servers whose answers are of the schema alone, or may have a thought or a call before.
void expect_refused(const Json& form, const std::string& param, const std::string& code) {
  static TestServer thinking([] {
    TestServer::Options options;
    options.chat_template = std::string(kHermes) + " <think>\n";
    return options;
  }());
  const Json tool = {{"type", "function"}, {"function", {{"name", "time"}}}};
  for (const TestServer* of : {&server(), &thinking}) {
    for (const Json& tools : {Json::array(), Json::array({tool})}) {
      Json body = chat_body();
      body["tools"] = tools;
      body.update(form);
      const Reply reply = of->post("/v1/chat/completions", body);
      ASSERT_EQ(reply.status, 400) << reply.body;
      EXPECT_EQ(reply.json()["error"]["param"], param) << reply.body;
      EXPECT_EQ(reply.json()["error"]["code"], code) << reply.body;
    }
    EXPECT_EQ(of->get("/health").status, 200);
  }
}

TEST(StructuredAnswers, OfASchemaThatIsNoneAreRefused) {
  const auto text = [](const std::string& schema, const std::string& code) {
    expect_refused({{"structured_outputs", {{"json", schema}}}}, "structured_outputs.json", code);
  };
  text("{\"a\":" + std::string(120000, '[') + std::string(120000, ']') + "}", "invalid_grammar");
  text("not json", "invalid_grammar");
  text("false", "invalid_value");
  text("[]", "invalid_value");
  std::string keys = "{\"z\":1";
  for (int i = 0; i < 12000; ++i) keys += fmt::format(",\"{}\":1", i);
  text(keys + "}", "invalid_value");
  const Json schema = {{"type", "json_schema"}, {"json_schema", {{"schema", false}}}};
  expect_refused({{"response_format", schema}}, "response_format.json_schema.schema",
                 "invalid_value");
}

TEST(StructuredAnswers, OfFieldsThatHaveOtherNamesHereAreNotLeftWithoutTheirForm) {
  expect_refused({{"guided_json", kSchema}}, "guided_json", "invalid_value");
  expect_refused({{"guided_choice", {"a", "b"}}}, "guided_choice", "invalid_value");
  expect_refused({{"regex", "a+"}}, "regex", "invalid_value");
  EXPECT_EQ(server().post("/v1/completions", {{"prompt", "a"}, {"guided_regex", nullptr}}).status,
            200);
}

TEST(StructuredAnswers, OfASchemaInATextAreAsOfTheSchema) {
  Json body = chat_body();
  body["structured_outputs"] = {{"json", kSchema}};
  const std::string expected = said(body);
  body["structured_outputs"] = {{"json", kSchema.dump(2)}};
  EXPECT_EQ(said(body), expected);
}

TEST(StructuredAnswers, ThatHoldManyEntriesAreRefusedCheaply) {
  std::string body = R"({"messages": [{"role": "user", "content": "Hi"}], "json_schema": {)";
  for (int i = 0; i < 60000; ++i) body += fmt::format("\"{}\":1,", i);
  body += "\"z\":1}}";
  const Reply reply = Client(server().port()).post("/v1/chat/completions", body);
  EXPECT_EQ(reply.status, 400);
  EXPECT_NE(reply.body.find("fewer entries"), std::string::npos) << reply.body;
}

}  // namespace
}  // namespace talon::test::grammar_paths_test
