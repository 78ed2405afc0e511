#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "test_server.h"

// The promise: the same request gives the same bytes, alone or in a crowd, drafted or not.
namespace talon::test {
namespace {

const Json kAnimal = Json::parse(
    R"({"type": "object", "properties": {"kind": {"enum": ["cat", "dog"]}, "says": {"type":
        "string", "maxLength": 20}}, "required": ["kind", "says"]})");

/// Requests of all kinds: what each says alone is known.
std::vector<Json> many_requests(int count) {
  constexpr std::array<const char*, 5> kPrompts = {"Once upon a time", "Tom", "a a a a a a a a",
                                                   "The big dog", "Lily saw a cat. Lily saw a"};
  constexpr std::array<double, 4> kTemperatures = {0, 0.7, 1, 1.5};
  std::vector<Json> requests;
  for (int i = 0; i < count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    Json request = {{"prompt", kPrompts[place % kPrompts.size()]},
                    {"temperature", kTemperatures[place % kTemperatures.size()]},
                    {"seed", i},
                    {"max_tokens", 1 + (i * 37) % 160}};
    if (i % 3 == 1) request["top_p"] = 0.9;
    if (i % 4 == 2) request["top_k"] = 20;
    if (i % 5 == 3) request["repetition_penalty"] = 1.2;
    if (i % 7 == 4) request["logit_bias"] = {{"10", 5}, {"261", -100}};
    if (i % 6 == 5) request["stop"] = {"the", "."};
    if (i % 8 == 3) request["min_tokens"] = 1;
    if (i % 9 == 2) request["structured_outputs"] = {{"regex", "[a-z ]{5,40}\\."}};
    if (i % 9 == 7) request["json_schema"] = kAnimal;
    requests.push_back(std::move(request));
  }
  return requests;
}

constexpr std::array<const char*, 4> kDrafters = {"none", "suffix", "ngram", "ngram+suffix"};

std::string text_of(const Reply& reply, bool streams) {
  if (!streams) return reply.json()["choices"][0]["text"];
  std::string text;
  for (const Json& event : reply.events()) {
    for (const Json& choice : event["choices"]) text += choice["text"].get<std::string>();
  }
  return text;
}

void check_crowd(const TestServer::Options& options, int concurrency) {
  TestServer server(options);
  const std::vector<Json> requests = many_requests(100);
  std::vector<std::string> found(requests.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < concurrency; ++client) {
    clients.emplace_back([&] {
      for (std::size_t i; (i = next++) < requests.size();) {
        Json request = requests[i];
        const bool streams = i % 2 == 0;
        request["stream"] = streams;
        request["talon"] = {{"drafter", kDrafters[i % kDrafters.size()]}};
        if (i % 3 == 0) request["talon"]["policy"] = "fixed";
        if (i % 9 == 8) {  // one that goes away
          Client gone(server.port());
          gone.send(post_text("/v1/completions", request.dump()));
          gone.is_closed_within(0.001);
        }
        const Reply reply = server.post("/v1/completions", request);
        found[i] = reply.status == 200 ? text_of(reply, streams) : "refused: " + reply.body;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(found[i], plain_text(requests[i])) << i << " of " << concurrency << " at once";
  }
  EXPECT_TRUE(server.becomes_idle());
}

TEST(Crowd, EveryAnswerIsWhatTheRequestGetsAlone) {
  for (const int concurrency : {1, 4, 16}) check_crowd({}, concurrency);
}

TEST(Crowd, EveryAnswerIsThatAlsoWhereTheCacheIsTooSmallForAll) {
  TestServer::Options options;
  options.cache_bytes = 600 << 10;
  check_crowd(options, 16);
}

}  // namespace
}  // namespace talon::test
