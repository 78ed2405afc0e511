#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "test_server.h"

// Full queues, readers that do not read, clients that go, and the end.
namespace talon::test::limits_test {
namespace {

const std::string kCompletion = "/v1/completions";

Json long_request(int seed = 1) {
  return {{"prompt", "Once"}, {"max_tokens", 500}, {"seed", seed}, {"ignore_eos", true}};
}

Json stream_of(Json request) {
  request["stream"] = true;
  return request;
}

/// Answers that ended because nobody wanted them.
int cancelled_of(const TestServer& server) {
  const std::string metrics = server.get("/metrics").body;
  const std::string name = "{finished_reason=\"cancelled\",model_name=\"tiny\"} ";
  const std::size_t at = metrics.find(name);
  return at == std::string::npos ? 0 : std::stoi(metrics.substr(at + name.size()));
}

TEST(Queue, ThatIsFullRefusesWithATimeToComeBack) {
  TestServer::Options options;
  options.queue = 2;
  options.cache_bytes = 1 << 20;
  TestServer server(options);
  Json request = long_request();
  request["n"] = 2;
  std::deque<Client> clients;
  for (int i = 0; i < 40; ++i) {
    clients.emplace_back(server.port()).send(post_text(kCompletion, request.dump()));
  }
  std::optional<Reply> refusal;
  for (Client& client : clients) {
    Reply reply = client.read();
    if (reply.status != 200) refusal = std::move(reply);
  }
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->status, 429);
  EXPECT_EQ(refusal->headers.at("retry-after"), "1");
  EXPECT_EQ(refusal->json()["error"]["type"], "rate_limit_error");
  EXPECT_EQ(refusal->json()["error"]["code"], "queue_full");
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_EQ(server.post(kCompletion, request).status, 200);
}

TEST(Queue, OfFewerPlacesThanARequestNeedsRefusesItForGood) {
  TestServer::Options options;
  options.queue = 2;
  TestServer server(options);
  Json request = long_request();
  request["n"] = 3;
  const Reply reply = server.post(kCompletion, request);
  EXPECT_EQ(reply.status, 400);
  EXPECT_FALSE(reply.headers.contains("retry-after"));
  EXPECT_EQ(reply.json()["error"]["param"], "n");
  EXPECT_EQ(reply.json()["error"]["message"],
            "n: expected at most 2 answers, all that the queue holds, found 3");
  request["n"] = 1;
  request["prompt"] = {"a", "b", "c"};
  EXPECT_EQ(server.post(kCompletion, request).json()["error"]["param"], "prompt");
}

TEST(Queue, OfATooSmallCacheAnswersInTurnOrRefuses) {
  TestServer::Options options;
  options.queue = 3;
  options.cache_bytes = 1 << 20;
  TestServer server(options);
  std::vector<Reply> replies(10);
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    clients.emplace_back(
        [&, i] { replies[i] = server.post(kCompletion, long_request(static_cast<int>(i))); });
  }
  for (std::thread& client : clients) client.join();
  int answered = 0;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (replies[i].status == 429) continue;
    ++answered;
    ASSERT_EQ(replies[i].status, 200) << replies[i].body;
    const Json alone = long_request(static_cast<int>(i));
    EXPECT_EQ(replies[i].json()["choices"][0]["text"], plain_text(alone));
  }
  EXPECT_GE(answered, 1);
  EXPECT_TRUE(server.becomes_idle());
}

TEST(Methods, ThatNobodyUsesMakeRoomForOthers) {
  TestServer server;
  Json request = {{"prompt", "Once"}, {"max_tokens", 20}, {"temperature", 0}};
  const std::string text = plain_text(request);
  for (int round = 0; round < 2; ++round) {
    for (int nodes = 1; nodes <= 40; ++nodes) {
      request["talon"] = {{"drafter", fmt::format("suffix:nodes={}", nodes)}};
      const Reply reply = server.post(kCompletion, request);
      ASSERT_EQ(reply.status, 200) << reply.body;
      EXPECT_EQ(reply.json()["choices"][0]["text"], text);
    }
  }
}

TEST(Methods, OfTheServersDrafterHaveItsWeights) {
  TestServer::Options options;
  options.drafter = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head,nodes=8";
  TestServer server(options);
  Json request = {{"prompt", "Once"}, {"max_tokens", 20}, {"temperature", 0}};
  request["talon"] = {{"drafter", "eagle3:nodes=4,levels=2+suffix"}};
  const Reply reply = server.post(kCompletion, request);
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.json()["choices"][0]["text"], plain_text(request));
  request["talon"] = {{"drafter", "eagle2:nodes=4"}};
  EXPECT_EQ(server.post(kCompletion, request).json()["error"]["param"], "talon.drafter");
}

TEST(Methods, ThatAreAllInUseRefuseAnother) {
  TestServer server;
  const auto request_of = [](int nodes) {
    Json request = stream_of(long_request(nodes));
    request["talon"] = {{"drafter", fmt::format("suffix:nodes={}", nodes)}};
    return post_text(kCompletion, request.dump());
  };
  std::deque<Client> clients;
  for (int nodes = 1; nodes <= 32; ++nodes) {
    clients.emplace_back(server.port()).send(request_of(nodes));
  }
  ASSERT_TRUE(server.load_becomes(32));
  Client another(server.port());
  another.send(request_of(33));
  const Reply reply = another.read();
  EXPECT_EQ(reply.status, 429);
  EXPECT_NE(reply.body.find("methods in use"), std::string::npos) << reply.body;
  for (Client& client : clients) EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(server
                .post(kCompletion,
                      Json::parse(R"({"prompt": "a", "talon": {"drafter": "suffix:nodes=33"}})"))
                .status,
            200);
}

TEST(Reader, ThatGoesAwayCancelsItsAnswer) {
  TestServer server;
  // Of a fast model an answer may be over before the server hears of it.
  for (int i = 0; i < 50 && cancelled_of(server) == 0; ++i) {
    {
      Client client(server.port());
      client.send(post_text(kCompletion, stream_of(long_request()).dump()));
      EXPECT_TRUE(client.read_until("data: "));
    }
    EXPECT_TRUE(server.load_becomes(0));
  }
  EXPECT_GE(cancelled_of(server), 1);
}

TEST(Reader, ThatGoesAwayBeforeTheEndOfAWholeAnswerCancelsItToo) {
  TestServer server;
  for (int i = 0; i < 20; ++i) {
    Client client(server.port());
    client.send(post_text(kCompletion, long_request().dump()));
    client.is_closed_within(0.001 * i);
  }
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_GE(cancelled_of(server), 5);
  EXPECT_EQ(server.post(kCompletion, long_request()).status, 200);
}

TEST(Reader, ThatGoesAwayWithMuchOfItsNextRequestSentCancelsItsAnswer) {
  TestServer server;
  Json next = long_request();
  next["prompt"] = std::string(60'000, 'x');
  for (int i = 0; i < 20; ++i) {
    Client client(server.port());
    client.send(post_text(kCompletion, long_request().dump()) +
                post_text(kCompletion, next.dump()));
    client.is_closed_within(0.001 * i);
  }
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_GE(cancelled_of(server), 5);
}

TEST(Reader, ThatSendsNoMoreGetsAllOfItsAnswer) {
  TestServer::Options options;
  options.http.unix_path = testing::TempDir() + "talon_half_closed_test.sock";
  TestServer server, local(options);
  const Json request = long_request(5);
  const std::string text = plain_text(request);
  const auto answer_to = [](Client& client, const Json& asked) {
    client.send(post_text(kCompletion, asked.dump()));
    client.close_half();
    Reply reply = client.read();
    EXPECT_TRUE(client.is_closed_within(5));
    return reply;
  };
  for (int i = 0; i < 5; ++i) {
    Client remote(server.port()), near(options.http.unix_path), streamed(server.port());
    for (Client* client : {&remote, &near}) {
      const Reply reply = answer_to(*client, request);
      ASSERT_EQ(reply.status, 200) << reply.body;
      EXPECT_EQ(reply.json()["choices"][0]["text"], text);
    }
    Reply reply = answer_to(streamed, stream_of(request));
    for (std::size_t at; (at = reply.body.find(":\n\n")) != std::string::npos;) {
      reply.body.erase(at, 3);  // a look for its reader
    }
    std::string pieces;
    for (const Json& event : reply.events()) {
      for (const Json& choice : event["choices"]) pieces += choice["text"];
    }
    EXPECT_EQ(pieces, text);
  }
  EXPECT_EQ(cancelled_of(server), 0);
}

/// It may have closed: what is written then says so.
TEST(Reader, ThatSendsNoMoreIsLookedForBeforeTheEndOfAWholeAnswer) {
  TestServer server;
  Json request = long_request();
  request["n"] = 16;
  bool is_looked_for = false;
  for (int i = 0; i < 20 && !is_looked_for; ++i) {
    Client client(server.port());
    client.send(post_text(kCompletion, request.dump()));
    client.close_half();
    is_looked_for = client.read_until("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n");
  }
  EXPECT_TRUE(is_looked_for);
}

/// Nothing may be written to it before its answer.
TEST(Reader, OfHttp10ThatSendsNoMoreBeforeAWholeAnswerCancelsIt) {
  TestServer server;
  Json request = long_request();
  request["n"] = 16;
  const std::string body = request.dump();
  for (int i = 0; i < 100 && cancelled_of(server) == 0; ++i) {
    Client client(server.port());
    client.send(fmt::format("POST {} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", kCompletion,
                            body.size(), body));
    client.close_half();
    client.read();
  }
  EXPECT_GE(cancelled_of(server), 1);
}

TEST(Reader, ThatSendsMoreThanItsNextRequestEarlyIsNotReadOn) {
  TestServer::Options options;
  options.http.limits.body_bytes = 20'000;
  TestServer server(options);
  Client client(server.port());
  Json request = long_request();
  request["n"] = 8;
  client.send(post_text(kCompletion, request.dump()) + std::string(200'000, 'x'));
  const Reply reply = client.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_TRUE(client.is_closed_within(5));
}

TEST(Reader, ThatReadsNothingIsDroppedAndTheOthersAreServed) {
  TestServer::Options options;
  options.limits.unread_bytes = 2000;
  options.http.limits.write_s = 3;
  TestServer server(options);
  Json request = stream_of(long_request());
  request["logprobs"] = 20;
  request["n"] = 8;
  Client silent(server.port());
  silent.send(post_text(kCompletion, request.dump()));
  Json plain = long_request();
  plain["temperature"] = 0;
  EXPECT_EQ(server.post(kCompletion, plain).json()["choices"][0]["text"], plain_text(plain));
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_GE(cancelled_of(server), 1);
}

TEST(Reader, ThatReadsLateGetsAllOfItsAnswer) {
  TestServer server;
  Json request = long_request(4);
  Client late(server.port());
  late.send(post_text(kCompletion, stream_of(request).dump()));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  std::string text;
  for (const Json& event : late.read().events()) {
    for (const Json& choice : event["choices"]) text += choice["text"];
  }
  EXPECT_EQ(text, server.post(kCompletion, request).json()["choices"][0]["text"]);
}

TEST(Draining, LetsRunningAnswersEndAndRefusesOthers) {
  TestServer server;
  Client running(server.port()), kept(server.port()), half(server.port());
  running.send(post_text(kCompletion, stream_of(long_request()).dump()));
  EXPECT_TRUE(running.read_until("data: "));
  half.send("POST " + kCompletion +
            " HTTP/1.1\r\nHost: talon\r\nContent-Length: 100\r\n\r\n{\"prompt\":");
  EXPECT_EQ(kept.get("/ready").status, 200);
  server->drain();
  EXPECT_EQ(half.read().status, 503);
  const Reply late = kept.post(kCompletion, long_request());
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(late.json()["error"]["code"], "draining");
  EXPECT_EQ(late.headers.at("connection"), "close");
  EXPECT_TRUE(kept.is_closed_within(5));
  EXPECT_EQ(server.get("/ready").status, 503);
  EXPECT_EQ(server.get("/ready").headers.at("connection"), "close");
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/metrics").status, 200);
  EXPECT_EQ(server.post(kCompletion, long_request()).status, 503);
  EXPECT_TRUE(running.read_until("data: [DONE]"));
  half.close();
  EXPECT_TRUE(server.becomes_idle());
}

TEST(Draining, EndsWhatDoesNotEndInTime) {
  TestServer server;
  Client running(server.port());
  Json request = stream_of(long_request());
  request["n"] = 16;
  request["stream_options"] = {{"include_usage", true}};
  running.send(post_text(kCompletion, request.dump()));
  EXPECT_TRUE(running.read_until("data: "));
  server->drain();
  server->cancel_all();
  EXPECT_TRUE(running.read_until("\"ended\":\"cancelled\""));
  EXPECT_TRUE(running.read_until("data: [DONE]"));
  EXPECT_TRUE(server.becomes_idle());
}

TEST(Draining, AServerThatEndsWhileItAnswersEndsCleanly) {
  for (int i = 0; i < 5; ++i) {
    Client client([&] {
      static std::unique_ptr<TestServer> server;
      server = std::make_unique<TestServer>();
      return server->port();
    }());
    client.send(post_text(kCompletion, stream_of(long_request()).dump()));
    client.is_closed_within(0.002 * i);
  }
}

}  // namespace
}  // namespace talon::test::limits_test
