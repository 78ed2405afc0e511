#include <gtest/gtest.h>

#include "test_server.h"

// What the heads of answers say, and what those of requests must.
namespace talon::test::http_headers_test {
namespace {

TestServer& server() {
  static TestServer server;
  return server;
}

Reply raw(const std::string& bytes) {
  Client client(server().port());
  client.send(bytes);
  return client.read();
}

TEST(HttpHeaders, OfEveryAnswerSayWhenItWasMade) {
  const testing::internal::RE date(
      "[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT");
  const Json stream = {{"prompt", "Tom"}, {"max_tokens", 2}, {"stream", true}};
  for (const Reply& reply : {server().get("/health"), server().get("/nothing"),
                             raw("hello\r\n\r\n"), server().post("/v1/completions", stream)}) {
    ASSERT_TRUE(reply.headers.contains("date")) << reply.status;
    EXPECT_TRUE(testing::internal::RE::FullMatch(reply.headers.at("date"), date))
        << reply.headers.at("date");
  }
}

TEST(HttpHeaders, OfARequestNameOneHost) {
  const auto message = [](const std::string& hosts) {
    const Reply reply = raw("GET /health HTTP/1.1\r\n" + hosts + "\r\n");
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.json()["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(message(""), "Host: expected one, found none");
  EXPECT_EQ(message("Host: a\r\nHost: b\r\n"), "Host: expected one, found several");
  EXPECT_EQ(raw("GET /health HTTP/1.1\r\nHost:\r\n\r\n").status, 200) << "one that is empty is one";
  EXPECT_EQ(raw("GET /health HTTP/1.0\r\n\r\n").status, 200) << "it has none";
  const Reply reply = raw("POST /v1/messages HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["type"], "error") << reply.body;
}

/// RFC 9110, 10.1.1: such a client would take what it is told for its answer.
TEST(HttpHeaders, OfAnOlderVersionAskForNoOtherAnswerBeforeTheirs) {
  const std::string body = R"({"prompt": "Once", "max_tokens": 1})";
  const auto ask = [&](const char* version) {
    return fmt::format(
        "POST /v1/completions HTTP/{}\r\nHost: talon\r\nExpect: 100-continue\r\n"
        "Connection: close\r\nContent-Length: {}\r\n\r\n{}",
        version, body.size(), body);
  };
  for (const char* version : {"1.0", "1.1"}) {
    EXPECT_EQ(raw(ask(version)).status, 200) << version;
    Client client(server().port());
    client.send(ask(version));
    EXPECT_EQ(client.read_until("100 Continue"), std::string(version) == "1.1") << version;
  }
}

TEST(HttpHeaders, TellAllMethodsOfAPath) {
  EXPECT_EQ(server().post("/health", Json::object()).headers.at("allow"), "GET, HEAD");
  EXPECT_EQ(server().get("/tokenize").headers.at("allow"), "POST");
}

TEST(HttpHeaders, ThatDoNotWantGzipGetNone) {
  const auto coding = [](const std::string& accepted) {
    const Reply reply = server().get("/", "Accept-Encoding: " + accepted + "\r\n");
    return reply.headers.contains("content-encoding") ? reply.headers.at("content-encoding") : "";
  };
  for (const char* wanted :
       {"gzip", "GZIP;q=1", "br, gzip ; q=0.5", "br;q=0, gzip", "a;b=c,gzip;d"}) {
    EXPECT_EQ(coding(wanted), "gzip") << wanted;
  }
  for (const char* other : {"gzip;q=0", "br, gzip; q=0.000", "gzip;a=b;Q=0", "gzipped", "br", ""}) {
    EXPECT_EQ(coding(other), "") << other;
  }
}

}  // namespace
}  // namespace talon::test::http_headers_test
