#include <gtest/gtest.h>

#include "test_server.h"

namespace talon::test::page_test {
namespace {

TestServer& server() {
  static TestServer server;
  return server;
}

TEST(ThePage, IsOneFileThatLoadsNothingFromElsewhere) {
  const Reply reply = server().get("/");
  ASSERT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_TRUE(reply.body.starts_with("<!doctype html>"));
  EXPECT_NE(reply.body.find("<title>Talon</title>"), std::string::npos);
  const std::string& policy = reply.headers.at("content-security-policy");
  EXPECT_TRUE(policy.starts_with("default-src 'none'; script-src 'sha256-")) << policy;
  EXPECT_NE(policy.find("connect-src 'self'"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(policy.find("http"), std::string::npos);
  EXPECT_EQ(reply.headers.at("x-content-type-options"), "nosniff");
}

TEST(ThePage, IsZippedForThoseWhoTakeIt) {
  const Reply plain = server().get("/");
  const Reply zipped = server().get("/", "Accept-Encoding: br, gzip\r\n");
  EXPECT_FALSE(plain.headers.contains("content-encoding"));
  EXPECT_EQ(zipped.headers.at("content-encoding"), "gzip");
  EXPECT_EQ(zipped.headers.at("vary"), "Accept-Encoding");
  EXPECT_TRUE(zipped.body.starts_with("\x1f\x8b"));
  EXPECT_LT(2 * zipped.body.size(), plain.body.size());
}

TEST(ThePage, IsNotSentAgainToThoseWhoHaveIt) {
  const Reply first = server().get("/");
  EXPECT_EQ(first.headers.at("cache-control"), "no-cache");
  Client client(server().port());
  const Reply again = client.get("/", "If-None-Match: " + first.headers.at("etag") + "\r\n");
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_FALSE(again.headers.contains("content-length"));
  EXPECT_EQ(client.get("/health").status, 200) << "the connection goes on";
  EXPECT_EQ(server().get("/", "If-None-Match: \"other\"\r\n").status, 200);
  EXPECT_EQ(server().get("/", "If-None-Match: *\r\n").status, 304);
}

TEST(ThePage, NeedsNoKeyAndItsPathsDo) {
  TestServer::Options options;
  options.api_keys = {"secret"};
  TestServer guarded(options);
  EXPECT_EQ(guarded.get("/").status, 200);
  EXPECT_EQ(guarded.get("/v1/load").status, 401);
}

TEST(ThePage, CanBeLeftOut) {
  TestServer::Options options;
  options.has_page = false;
  TestServer without(options);
  EXPECT_EQ(without.get("/").status, 404);
  EXPECT_EQ(without.get("/health").status, 200);
}

}  // namespace
}  // namespace talon::test::page_test
