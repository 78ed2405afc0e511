#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "crowd_requests.h"
#include "test_server.h"

// The promise: the same request gives the same bytes, alone or in a crowd, drafted or not.
namespace talon::test::crowd_test {
namespace {

constexpr int kRequests = 200;
constexpr std::array<const char*, 4> kDrafters = {"none", "suffix", "ngram", "ngram+suffix"};

TestServer::Options options_of(std::size_t cache_bytes) {
  TestServer::Options options;
  options.chat_template = kHermes;
  options.cache_bytes = cache_bytes;
  return options;
}

/// What each request gets when nothing else runs, without drafts.
std::vector<Json> alone(const std::vector<CrowdRequest>& requests) {
  TestServer server(options_of(0));
  std::vector<Json> all;
  for (const CrowdRequest& request : requests) {
    Json body = request.body;
    body["talon"] = {{"drafter", "none"}};
    all.push_back(said(server.post(request.path, body), false));
  }
  return all;
}

Reply ask(const TestServer& server, const CrowdRequest& request, const std::string& body) {
  if (request.leaves) {
    Client gone(server.port());
    gone.send(post_text(request.path, body));
    gone.is_closed_within(0.001);
  }
  Client client(server.port());
  client.send(post_text(request.path, body));
  if (request.is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return client.read();
}

double preemptions(const TestServer& server) {
  const std::string metrics = server.get("/metrics").body;
  const std::size_t line = metrics.find("\ntalon:num_preemptions_total");
  return std::stod(metrics.substr(metrics.find(' ', line)));
}

/// Returns how often an answer gave its room to another.
double check_crowd(std::size_t cache_bytes, const std::vector<int>& concurrencies) {
  static const std::vector<CrowdRequest> requests = crowd_requests(kRequests);
  static const std::vector<Json> expected = alone(requests);
  TestServer server(options_of(cache_bytes));
  for (const int concurrency : concurrencies) {
    std::vector<Json> found(requests.size());
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> clients;
    for (int client = 0; client < concurrency; ++client) {
      clients.emplace_back([&] {
        for (std::size_t i; (i = next++) < requests.size();) {
          Json body = requests[i].body;
          body["stream"] = requests[i].streams;
          body["talon"] = {{"drafter", kDrafters[i % kDrafters.size()]}};
          if (i % 3 == 0) body["talon"]["policy"] = "fixed";
          found[i] = said(ask(server, requests[i], body.dump()), requests[i].streams);
        }
      });
    }
    for (std::thread& client : clients) client.join();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(found[i], expected[i]) << i << " of " << concurrency << " at once";
    }
    EXPECT_TRUE(server.becomes_idle());
  }
  return preemptions(server);
}

TEST(Crowd, EveryAnswerIsWhatTheRequestGetsAlone) { check_crowd(0, {1, 4, 16}); }

TEST(Crowd, EveryAnswerIsThatAlsoWhereTheCacheIsTooSmallForAll) {
  // Whether answers grow into each other depends on when requests come: some crowds see it.
  double times = 0;
  for (int crowds = 0; crowds < 10 && times == 0; ++crowds) times = check_crowd(400 << 10, {16});
  EXPECT_GT(times, 0);
}

TEST(Crowd, AloneIsWhatTheModelSaysWithoutAServer) {
  const std::vector<CrowdRequest> requests = crowd_requests(kRequests);
  const std::vector<Json> expected = alone(requests);
  int compared = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].path != "/v1/completions") continue;
    EXPECT_EQ(expected[i][0]["text"], plain_text(requests[i].body)) << i;
    ++compared;
  }
  EXPECT_GT(compared, kRequests / 2);
}

/// A crowd is one only if its requests do what they are for.
TEST(Crowd, HasToolsGrammarsChoicesAndWholeContexts) {
  const std::vector<CrowdRequest> requests = crowd_requests(kRequests);
  int calls = 0, several = 0, whole = 0;
  for (const Json& answer : alone(requests)) {
    ASSERT_TRUE(answer.is_array()) << answer;
    several += answer.size() > 1 ? 1 : 0;
    for (const Json& choice : answer) {
      calls += choice["calls"].empty() ? 0 : 1;
      whole += choice["text"].get<std::string>().size() > 800 ? 1 : 0;
    }
  }
  EXPECT_GT(calls, 10);
  EXPECT_GT(several, 10);
  EXPECT_GT(whole, 3);
}

}  // namespace
}  // namespace talon::test::crowd_test
