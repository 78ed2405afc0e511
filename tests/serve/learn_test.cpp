#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "test_server.h"
#include "train/data/dataset.h"

namespace talon::test {
namespace {

/// A folder that goes with the test.
class LearnFolder {
 public:
  LearnFolder() : path_(testing::TempDir() + "talon_learn_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary folder");
  }
  ~LearnFolder() { std::filesystem::remove_all(path_); }
  LearnFolder(const LearnFolder&) = delete;
  LearnFolder& operator=(const LearnFolder&) = delete;
  std::filesystem::path path() const { return path_; }
  TestServer::Options options() const {
    TestServer::Options options;
    options.learn.emplace();
    options.learn->folder = path_;
    return options;
  }

 private:
  std::string path_;
};

Json completion(int number) {
  return {{"prompt", "Tom saw " + std::to_string(number) + " birds and"},
          {"max_tokens", 24},
          {"temperature", number % 2 == 0 ? 0 : 1},
          {"seed", number}};
}

Json learning(const TestServer& server) {
  return server.get("/v1/load").json()["models"][0]["learning"];
}

TEST(Learn, KeepsEveryAnswerWithItsVectorsAndChangesNone) {
  constexpr int kRequests = 40;
  const LearnFolder folder;
  std::size_t kept = 0, held_out = 0;
  {
    TestServer server(folder.options());
    for (int i = 0; i < kRequests; ++i) {
      const Json answer = server.post("/v1/completions", completion(i)).json();
      EXPECT_EQ(answer["choices"][0]["text"], plain_text(completion(i)));
    }
    ASSERT_TRUE(server.becomes_idle());
    const Json said = learning(server);
    EXPECT_EQ(said["left_out"], 0);
    EXPECT_GT(said["answer_tokens"], 0);
  }  // what is still to be written is
  for (const char* part : {"recent", "held_out"}) {
    const Dataset data(folder.path() / part);
    (std::string(part) == "recent" ? kept : held_out) = data.size();
    for (std::size_t i = 0; i < data.size(); ++i) {
      const Conversation conversation = data.read(i);
      EXPECT_EQ(conversation.rows() + 1, static_cast<int>(conversation.tokens.size()));
      EXPECT_TRUE(conversation.source.starts_with("served seed="));
    }
  }
  EXPECT_EQ(kept + held_out, kRequests);
  EXPECT_GT(held_out, 0U);
  EXPECT_GT(kept, 4 * held_out);
}

TEST(Learn, TheSameAnswerIsKeptOnce) {
  const LearnFolder folder;
  TestServer server(folder.options());
  for (int i = 0; i < 3; ++i) server.post("/v1/completions", completion(2));
  ASSERT_TRUE(server.becomes_idle());
  EXPECT_EQ(learning(server)["left_out"], 2);
}

TEST(Learn, NobodyIsToldOfLearningWhereThereIsNone) {
  const TestServer server;
  EXPECT_FALSE(server.get("/v1/load").json()["models"][0].contains("learning"));
}

TEST(Learn, TwoServersDoNotShareAFolder) {
  const LearnFolder folder;
  const TestServer server(folder.options());
  EXPECT_THROW(TestServer{folder.options()}, Error);
}

}  // namespace
}  // namespace talon::test
