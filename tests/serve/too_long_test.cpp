#include <gtest/gtest.h>

#include "test_server.h"

// Prompts that are too long. Clients shorten their chats where they know this by its words: those
// of OpenAI's interface, or of Anthropic's, whose errors have no code.
namespace talon::test::too_long_test {
namespace {

TestServer& server() {
  static TestServer server;
  return server;
}

constexpr const char* kWords = "this model's maximum context length is 512 tokens";

Json chat(const std::string& text) {
  return {{"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", 1}};
}

std::string problem(const TestServer& of, const char* path, const Json& body) {
  const Reply reply = of.post(path, body);
  EXPECT_EQ(reply.status, 400) << path << " " << reply.body;
  return reply.json()["error"]["message"];
}

/// By their tokens, or by their bytes alone.
TEST(TooLong, PromptsAreSaidToBeSoInTheWordsOfTheInterface) {
  for (const std::size_t size : {std::size_t{1200}, std::size_t{1} << 20}) {
    const std::string text(size, '7');
    for (const std::string& message : {problem(server(), "/v1/chat/completions", chat(text)),
                                       problem(server(), "/v1/completions", {{"prompt", text}}),
                                       problem(server(), "/v1/responses", {{"input", text}})}) {
      EXPECT_TRUE(message.ends_with(kWords)) << message;
    }
    const std::string message = problem(server(), "/v1/messages", chat(text));
    EXPECT_TRUE(message.starts_with("prompt is too long: messages: ")) << message;
    EXPECT_TRUE(message.ends_with(kWords)) << message;
  }
}

TEST(TooLong, PromptsForABoundOfTheServerAreToldIt) {
  TestServer::Options options;
  options.limits.prompt_tokens = 5;
  const TestServer small(options);
  const Json tokens(std::vector<int>(6, 5));
  EXPECT_EQ(problem(small, "/v1/completions", {{"prompt", tokens}}),
            "prompt: expected at most 5 tokens, found 6: this model's maximum context length is 5 "
            "tokens");
}

TEST(TooLong, OtherErrorsAreNotSaidToBeSo) {
  Json body = chat("Hi");
  body["max_tokens"] = 0;
  EXPECT_TRUE(problem(server(), "/v1/messages", body).starts_with("max_tokens: expected "));
}

}  // namespace
}  // namespace talon::test::too_long_test
