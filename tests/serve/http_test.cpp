#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <new>
#include <random>
#include <thread>

#include "test_server.h"

// What comes over the wire before anything is read as a request for an answer.
namespace talon::test::http_test {
namespace {

const std::string kCompletion = "/v1/completions";
const std::string kShort = R"({"prompt": "Tom", "max_tokens": 4, "temperature": 0})";

TestServer& server() {
  static TestServer server;
  return server;
}

Reply raw(const std::string& bytes) {
  Client client(server().port());
  client.send(bytes);
  return client.read();
}

std::string message_of(const Reply& reply) { return reply.json()["error"]["message"]; }

TEST(Http, AConnectionCarriesManyRequests) {
  Client client(server().port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.post(kCompletion, kShort).status, 200);
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST(Http, AConnectionOfHttp10IsKeptForThoseWhoAsk) {
  const std::string head =
      fmt::format("POST {} HTTP/1.0\r\nContent-Length: {}\r\n", kCompletion, kShort.size());
  Client kept(server().port());
  for (int i = 0; i < 2; ++i) {
    kept.send(head + "Connection: keep-alive\r\n\r\n" + kShort);
    const Reply reply = kept.read();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.headers.at("connection"), "keep-alive");
    EXPECT_TRUE(reply.headers.contains("content-length"));
  }
  kept.send(head + "\r\n" + kShort);
  EXPECT_EQ(kept.read().headers.at("connection"), "close");
  EXPECT_TRUE(kept.is_closed_within(5));
  EXPECT_FALSE(server().get("/health").headers.contains("connection"));
}

TEST(Http, RequestsThatComeTogetherAreAnsweredInTurn) {
  Client client(server().port());
  client.send(post_text(kCompletion, kShort) + post_text("/tokenize", R"({"content": "a"})") +
              "GET /health HTTP/1.1\r\nHost: talon\r\n\r\n");
  EXPECT_EQ(client.read().json()["object"], "text_completion");
  EXPECT_TRUE(client.read().json().contains("tokens"));
  EXPECT_EQ(client.read().json()["status"], "ok");
}

TEST(Http, ABodyMayComeInChunksAndLate) {
  Client client(server().port());
  client.send("POST " + kCompletion +
              " HTTP/1.1\r\nHost: talon\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("10\r\n" + kShort.substr(0, 16) + "\r\n");
  client.send(fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", kShort.size() - 16, kShort.substr(16)));
  EXPECT_EQ(client.read().status, 200);
}

TEST(Http, AClientThatAsksWhetherToSendItsBodyIsTold) {
  for (const char* expects : {"100-continue", "100-Continue"}) {
    Client client(server().port());
    client.send(
        fmt::format("POST {} HTTP/1.1\r\nHost: talon\r\nExpect: {}\r\nContent-Length: {}\r\n\r\n",
                    kCompletion, expects, kShort.size()));
    EXPECT_TRUE(client.read_until("100 Continue\r\n\r\n"));
    client.send(kShort);
    EXPECT_TRUE(client.read_until("text_completion"));
  }
}

TEST(Http, PathsAndMethodsThatDoNotExistAreRefused) {
  EXPECT_EQ(server().get("/v2/completions").status, 404);
  EXPECT_EQ(server().get("/v1/models/").status, 404);
  const Reply reply = server().get(kCompletion);
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.headers.at("allow"), "POST");
  EXPECT_EQ(server().get("/health?verbose=1").status, 200);
  EXPECT_EQ(raw("HEAD /health HTTP/1.1\r\nHost: talon\r\nConnection: close\r\n\r\n").status, 200);
}

TEST(Http, AnAnswerToHeadEndsWithItsHeaders) {
  Client client(server().port());
  for (int i = 0; i < 2; ++i) {
    client.send("HEAD /health HTTP/1.1\r\nHost: talon\r\n\r\n");
    EXPECT_EQ(client.read(/*has_body=*/false).headers["content-length"], "15");
    client.send("GET /ready HTTP/1.1\r\nHost: talon\r\n\r\n");  // whose answer comes next
    EXPECT_EQ(client.read().json()["status"], "ready");
  }
}

TEST(Http, LineEndsBehindABodyAreNoRequest) {
  Client client(server().port());
  const std::string body = R"({"prompt": "Once", "max_tokens": 1})";
  const std::string head = fmt::format(
      "POST {} HTTP/1.1\r\nHost: talon\r\nContent-Length: {}\r\n\r\n", kCompletion, body.size());
  client.send(head + body + "\r\n" + head + body + "\r\n\n");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(client.read().status, 200);
  client.send("\r\n");  // late
  EXPECT_FALSE(client.is_closed_within(0.1));
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_EQ(raw("\r\n\nGET /health HTTP/1.1\r\nHost: talon\r\n\r\n").status, 200);
}

TEST(Http, TargetsMayNameTheHostAndEscapeNamesOfModels) {
  EXPECT_EQ(server().get("http://somewhere:80/health").status, 200);
  EXPECT_EQ(server().get("http://somewhere").status, 200);
  EXPECT_EQ(server().get("/v1/models/t%69ny").status, 200);
  EXPECT_EQ(server().get("/v1/models/%00%zz%").status, 404);
  for (const char* path : {"/%6detrics", "/v1%2Fload", "http://somewhere/%70rops", "//metrics"})
    EXPECT_EQ(server().get(path).status, 404) << "passes by a proxy that refuses the path";
}

TEST(Http, BodiesInAnotherFormAreRefusedByTheirHeader) {
  const std::string post = "POST " + kCompletion + " HTTP/1.1\r\nHost: talon\r\n";
  const Reply transfer = raw(post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(transfer.status, 501);
  EXPECT_TRUE(message_of(transfer).starts_with("Transfer-Encoding: expected chunked"));
  const Reply content = raw(post + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(content.status, 415);
  EXPECT_TRUE(message_of(content).starts_with("Content-Encoding: expected none"));
}

TEST(Http, WhatIsNoRequestIsRefused) {
  EXPECT_EQ(raw("hello\r\n\r\n").status, 400);
  EXPECT_EQ(raw("GET /health HTTP/3.7\r\n\r\n").status, 400);
  EXPECT_EQ(raw("GET /health HTTP/1.1\r\nno colon\r\n\r\n").status, 400);
  EXPECT_EQ(
      raw("POST /v1/completions HTTP/1.1\r\nHost: talon\r\nContent-Length: -5\r\n\r\n").status,
      400);
  EXPECT_EQ(raw("POST /v1/completions HTTP/1.1\r\nHost: talon\r\nContent-Length: "
                "5\r\nContent-Length: 6\r\n\r\n")
                .status,
            400);
}

TEST(Http, HeadersAndBodiesHaveTheirBounds) {
  const std::string header = "X-Long: " + std::string(20 << 10, 'x') + "\r\n";
  EXPECT_EQ(server().get("/health", header).status, 431);
  Client announced(server().port());
  announced.send("POST " + kCompletion +
                 " HTTP/1.1\r\nHost: talon\r\nContent-Length: 100000000\r\n\r\n");
  EXPECT_EQ(announced.read().status, 413);
  Client chunked(server().port());
  chunked.send("POST " + kCompletion +
               " HTTP/1.1\r\nHost: talon\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string piece = "10000\r\n" + std::string(0x10000, 'x') + "\r\n";
  for (int i = 0; i < 80; ++i) chunked.send(piece);
  const Reply reply = chunked.read();
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(message_of(reply), "body: expected at most 4194304 bytes, found more");
}

TEST(Http, HalfARequestIsForgotten) {
  for (const char* half : {"GET /hea", "POST /v1/completions HTTP/1.1\r\nHost: talon\r\nContent-Le",
                           "POST /v1/completions HTTP/1.1\r\nHost: talon\r\nContent-Length: "
                           "100\r\n\r\n{\"prompt\": \"To"}) {
    Client client(server().port());
    client.send(half);
    client.close();
  }
  EXPECT_EQ(server().get("/health").status, 200);
  EXPECT_TRUE(server().becomes_idle());
}

TEST(Http, BodiesThatAreNotTheJsonOfARequestAreRefused) {
  const auto refused = [](const std::string& body) {
    const Reply reply = Client(server().port()).post(kCompletion, body);
    EXPECT_EQ(reply.status, 400) << body.substr(0, 40);
    return message_of(reply);
  };
  EXPECT_TRUE(refused("").starts_with("body: expected JSON text"));
  EXPECT_EQ(refused("{"),
            "body: expected JSON text: line 1, column 2: unexpected end of input; expected string "
            "literal");
  EXPECT_EQ(refused("{\"prompt\": \"" + std::string(500, 'x') + "\n\"}"),
            "body: expected JSON text: line 2, column 0: invalid string: control character U+000A "
            "(LF) must be escaped to \\\\u000A or \\\\n; last read: ...\"" +
                std::string(24, 'x') + "<U+000A>\"");
  EXPECT_EQ(refused("[1]"), "body: expected an object, found an array of 1 value");
  EXPECT_TRUE(refused("{\"prompt\": \"\xff\xfe\"}").starts_with("body: expected JSON text"));
  EXPECT_EQ(refused("{\"n\": 1, \"n\": 2}"), "body: key \"n\": found twice");
  const std::string deep = std::string(10'000, '[') + std::string(10'000, ']');
  EXPECT_TRUE(
      refused("{\"prompt\": " + deep + "}").starts_with("body: expected at most 64 values"));
  std::string open = "{\"a\":";
  for (int i = 0; i < 13; ++i) open += open;
  EXPECT_TRUE(refused(open).starts_with("body: "));
}

TEST(Http, SlowClientsAreNotWaitedForLong) {
  TestServer::Options options;
  options.http.limits.header_s = options.http.limits.body_s = 0.3;
  TestServer hasty(options);
  options.http.limits.header_s = options.http.limits.body_s = 30;
  options.http.limits.idle_s = 0.3;
  TestServer impatient(options);
  Client header(hasty.port()), body(hasty.port()), idle(impatient.port());
  header.send("GET /health HTTP/1.1\r\nHost: talon\r\nX-Slow: ");
  body.send("POST " + kCompletion + " HTTP/1.1\r\nHost: talon\r\nContent-Length: 10\r\n\r\n");
  // A byte now and then does not buy time.
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(header.is_closed_within(0.02));
    header.send("x");
    body.send("x");
  }
  EXPECT_EQ(header.read().status, 408);
  EXPECT_EQ(body.read().status, 408);
  EXPECT_TRUE(idle.is_closed_within(5));
}

TEST(Http, AKeyIsAskedForButNotOfThoseWhoLookWhetherTheServerLives) {
  TestServer::Options options;
  options.api_keys = {"secret", "other"};
  TestServer locked(options);
  EXPECT_EQ(locked.get("/v1/models").status, 401);
  EXPECT_EQ(locked.get("/nothing").status, 401);
  EXPECT_EQ(locked.get("/v1/models", "Authorization: Bearer secre\r\n").status, 401);
  EXPECT_EQ(locked.get("/v1/models", "Authorization: Bearer other\r\n").status, 200);
  EXPECT_EQ(locked.get("/v1/models", "x-api-key: secret\r\n").status, 200);
  EXPECT_EQ(locked.get("/v1/models", "Authorization: bearer  other\r\n").status, 200);
  EXPECT_EQ(locked.get("/v1/models", "Authorization: Basic other\r\n").status, 401);
  // One that is right is enough.
  const std::string wrong = "Authorization: Bearer x\r\n";
  EXPECT_EQ(locked.get("/v1/models", wrong + "x-api-key: secret\r\n").status, 200);
  EXPECT_EQ(locked.get("/v1/models", wrong + "x-api-key: y\r\n").status, 401);
  EXPECT_EQ(locked.get("/health").status, 200);
  EXPECT_EQ(locked.get("/ready").status, 200);
}

TEST(Http, PagesOfOthersMayCallOnlyWhereTheyAreAllowedTo) {
  EXPECT_EQ(server().get("/health", "Origin: http://evil.example\r\n").status, 403);
  TestServer::Options options;
  options.http.cors = "http://page.example";
  TestServer open(options);
  const Reply reply = open.get("/health", "Origin: http://page.example\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("access-control-allow-origin"), "http://page.example");
  EXPECT_EQ(reply.headers.at("access-control-expose-headers"),
            "X-Request-Id, Request-Id, Retry-After");
  EXPECT_EQ(open.get("/health", "Origin: http://evil.example\r\n").status, 403);
  Client client(open.port());
  client.send(
      "OPTIONS /v1/completions HTTP/1.1\r\nHost: talon\r\nOrigin: http://page.example\r\n\r\n");
  EXPECT_EQ(client.read().status, 204);
}

TEST(Http, APageWhoseNameWasGivenThisMachinesAddressMayNotCall) {
  const auto status = [](const TestServer& of, const std::string& host, const std::string& more) {
    Client client(of.port());
    client.send(fmt::format("GET /health HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\n{1}\r\n",
                            host, more));
    return client.read().status;
  };
  for (const char* own : {"localhost", "127.0.0.1:8311", "[::1]:80"}) {
    EXPECT_EQ(status(server(), own, ""), 200) << own;
  }
  for (const char* other : {"evil:8311", "localhost.evil:80", "127.0.0.1.evil", "[::1"}) {
    EXPECT_EQ(status(server(), other, ""), 403) << other;
  }
  TestServer::Options options;
  options.api_keys = {"secret"};
  TestServer locked(options);
  EXPECT_EQ(status(locked, "talon.example", "x-api-key: secret\r\n"), 200);
}

TEST(Http, WhatTheServerItselfRefusesHasTheFormOfThePath) {
  TestServer::Options options;
  options.http.limits.body_s = 0.3;
  TestServer hasty(options);
  const auto type = [&](const std::string& headers) {
    Client client(hasty.port());
    client.send("POST /v1/messages HTTP/1.1\r\nHost: talon\r\n" + headers + "\r\n");
    const Json body = client.read().json();
    EXPECT_EQ(body.value("type", ""), "error") << body;
    return body["error"].value("type", "");
  };
  EXPECT_EQ(type("Content-Length: 100000000\r\n"), "request_too_large");
  EXPECT_EQ(type("Content-Encoding: gzip\r\nContent-Length: 2\r\n"), "invalid_request_error");
  EXPECT_EQ(type("Origin: http://evil.example\r\n"), "permission_error");
  EXPECT_EQ(type("Content-Length: 10\r\n"), "invalid_request_error");  // which does not come
}

TEST(Http, AUnixSocketServesAndIsRemovedAtTheEnd) {
  const std::string path = testing::TempDir() + "talon_serve_test.sock";
  {
    TestServer::Options options;
    options.http.unix_path = path;
    TestServer local(options);
    EXPECT_EQ(local->address(), "unix:" + path);
    EXPECT_EQ(Client(path).post(kCompletion, kShort).status, 200);
    EXPECT_THROW(TestServer second(options), Error);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Http, AnAddressInUseIsAnError) {
  TestServer::Options options;
  options.http.port = server().port();
  EXPECT_THROW(TestServer second(options), Error);
}

TEST(Http, OfTooManyConnectionsTheOneThatIsIdleLongestGivesWay) {
  TestServer::Options options;
  options.http.limits.connections = 3;
  TestServer small(options);
  Client first(small.port());
  EXPECT_EQ(first.get("/health").status, 200);
  Client second(small.port()), third(small.port());
  EXPECT_EQ(second.get("/health").status, 200);
  EXPECT_EQ(third.get("/health").status, 200);
  Client fourth(small.port());
  EXPECT_EQ(fourth.get("/health").status, 200);
  EXPECT_TRUE(first.is_closed_within(5));
  EXPECT_EQ(second.get("/health").status, 200);
}

/// While it lives this process may open as many files more.
class FewDescriptors {
 public:
  explicit FewDescriptors(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    const int next = dup(STDERR_FILENO);  // the lowest that is free
    ::close(next);
    few.rlim_cur = static_cast<rlim_t>(next + more);
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_ = {};
};

TEST(Http, WithoutADescriptorForAConnectionTheOneThatIsIdleLongestGivesWay) {
  TestServer poor;
  Client first(poor.port()), second(poor.port()), third(poor.port());
  for (Client* client : {&first, &second, &third}) EXPECT_EQ(client->get("/health").status, 200);
  const FewDescriptors few(1);  // this end of the connection
  Client fourth(poor.port());
  EXPECT_EQ(fourth.get("/health").status, 200);
  EXPECT_TRUE(first.is_closed_within(5));
  EXPECT_EQ(third.get("/health").status, 200);
}

TEST(Http, AnswersCarryTheNameOfTheirRequest) {
  const Reply reply = server().get("/health", "X-Request-Id: my-request.7\r\n");
  EXPECT_EQ(reply.headers.at("x-request-id"), "my-request.7");
  EXPECT_EQ(reply.headers.at("request-id"), "my-request.7");
  const std::string made = server().get("/health").headers.at("x-request-id");
  EXPECT_TRUE(made.starts_with("req_")) << made;
  EXPECT_NE(server().get("/health").headers.at("x-request-id"), made);
  for (const std::string& bad : {std::string("a b"), std::string("<a>"), std::string(129, 'a')}) {
    const Reply other = server().get("/health", "X-Request-Id: " + bad + "\r\n");
    EXPECT_TRUE(other.headers.at("x-request-id").starts_with("req_")) << bad;
  }
  EXPECT_TRUE(server().get("/nothing").headers.contains("x-request-id"));
  EXPECT_TRUE(raw("hello\r\n\r\n").headers.contains("x-request-id"));
  Client client(server().port());
  client.send(post_text(kCompletion, R"({"prompt": "Tom", "max_tokens": 4, "stream": true})",
                        "X-Request-Id: a-stream\r\n"));
  EXPECT_EQ(client.read().headers.at("x-request-id"), "a-stream");
}

TEST(Http, ARequestThatFindsNoMemoryEndsItsConnectionAlone) {
  HttpOptions options;
  options.port = 0;
  HttpHandlers handlers;
  handlers.refuse = [](const HttpRequest&) -> std::optional<HttpResponse> { return std::nullopt; };
  handlers.handle = [](const HttpRequest& request, const std::shared_ptr<Exchange>& exchange) {
    if (request.path == "/large") throw std::bad_alloc();
    exchange->respond({});
  };
  handlers.sent = [](const std::string&, const HttpResponse&) {};
  HttpServer poor(options, handlers);
  std::thread thread([&] { poor.run(); });
  EXPECT_EQ(Client(poor.port()).get("/large").status, 0);
  EXPECT_EQ(Client(poor.port()).get("/small").status, 200);
  poor.stop();
  thread.join();
}

TEST(Http, AThousandIdleConnectionsLeaveTheServerQuick) {
  TestServer many;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 900; ++i) clients.push_back(std::make_unique<Client>(many.port()));
  EXPECT_EQ(many.post(kCompletion, Json::parse(kShort)).status, 200);
  EXPECT_EQ(clients[450]->get("/health").status, 200);
}

TEST(Http, BytesWithoutSenseDoNoHarm) {
  std::mt19937 random(7);
  const std::string good = post_text(kCompletion, kShort);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = good;
    const int changes = 1 + static_cast<int>(random() % 6);
    for (int change = 0; change < changes; ++change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    Client client(server().port());
    client.send(bytes.substr(0, 1 + random() % bytes.size()));
    if (i % 3 == 0) client.is_closed_within(0.005);
  }
  EXPECT_EQ(server().get("/health").status, 200);
  EXPECT_TRUE(server().becomes_idle());
}

}  // namespace
}  // namespace talon::test::http_test
