#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "test_server.h"

// A machine that has no room for a request's work right now.
namespace talon::test::busy_test {
namespace {

/// While it lives this process has no room for the stack of a thread that compiles a grammar or
/// renders a template, which is 256 MiB of addresses.
class NoRoomForAStack {
 public:
  NoRoomForAStack() {
    constexpr rlim_t kRoom = rlim_t{128} << 20;
    getrlimit(RLIMIT_AS, &before_);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit little = before_;
    little.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kRoom;
    setrlimit(RLIMIT_AS, &little);
  }
  ~NoRoomForAStack() { setrlimit(RLIMIT_AS, &before_); }
  NoRoomForAStack(const NoRoomForAStack&) = delete;
  NoRoomForAStack& operator=(const NoRoomForAStack&) = delete;

 private:
  rlimit before_ = {};
};

TEST(ABusyServer, SaysThatItIsBusyAndNotThatTheRequestIsWrong) {
  TestServer server;
  const Json chat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 4}};
  const std::vector<std::pair<std::string, Json>> requests = {
      {"/v1/completions",
       {{"prompt", "Tom"}, {"max_tokens", 4}, {"structured_outputs", {{"regex", "[ab]{3}"}}}}},
      {"/v1/chat/completions", chat},
      {"/v1/messages", chat},
      {"/apply-template", chat}};
  {
    const NoRoomForAStack little;
    for (const auto& [path, body] : requests) {
      const Reply reply = server.post(path, body);
      EXPECT_EQ(reply.status, 503) << path << reply.body;
      const Json error = reply.json()["error"];
      EXPECT_EQ(error["type"], "overloaded_error") << path;
      EXPECT_NE(error["message"].get<std::string>().find("cannot start a thread"),
                std::string::npos)
          << reply.body;
      if (path != "/v1/messages") {
        EXPECT_EQ(error["code"], "busy") << path;
        EXPECT_EQ(error["param"], nullptr) << path;
      }
      ASSERT_TRUE(reply.headers.contains("retry-after")) << path;
      EXPECT_EQ(reply.headers.at("retry-after"), "1");
    }
  }
  for (const auto& [path, body] : requests) EXPECT_EQ(server.post(path, body).status, 200) << path;
}

}  // namespace
}  // namespace talon::test::busy_test
