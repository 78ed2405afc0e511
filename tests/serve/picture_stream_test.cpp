#include <gtest/gtest.h>

#include <set>

#include "picture_server.h"

// Streams of POST /v1/images/generations, clients that leave, and pictures that are drawn together.
namespace talon::test::picture_stream_test {
namespace {

constexpr int kSide = 32;
const Json kAsk = {{"prompt", "red cat flat"}, {"seed", 5}};

PictureServer& server() {
  static PictureServer server(words_model(kSide, kSide));
  return server;
}

Json asking(const Json& more) {
  Json body = kAsk;
  body.update(more);
  return body;
}

TEST(StreamedPictures, GrowAndEndAsTheWhole) {
  const Json whole = server().draw(kAsk).json()["data"][0];
  const auto events = server().stream(asking({{"partial_images", kSide}}));
  ASSERT_GE(events.size(), 2u);
  EXPECT_LE(events.size(), static_cast<std::size_t>(kSide)) << "at most one a row";
  std::size_t drawn = 0;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const Json& partial = events[i];
    EXPECT_EQ(partial["type"], "image_generation.partial_image");
    EXPECT_EQ(partial["partial_image_index"], i);
    EXPECT_EQ(partial["size"], "64x64");
    const std::size_t cells = partial["talon"]["depths"].size();
    EXPECT_GE(cells, drawn + (i == 0 ? kSide : 1));
    drawn = cells;
    const auto pixels = pixels_of(partial["b64_json"]);
    const std::vector<std::uint8_t> blank(64 * 3, 226);
    EXPECT_EQ(std::vector(pixels.end() - 64 * 3, pixels.end()), blank) << "the last row";
    EXPECT_NE(std::vector(pixels.begin(), pixels.begin() + 64 * 3), blank) << "the first row";
  }
  const Json& last = events.back();
  EXPECT_EQ(last["type"], "image_generation.completed");
  EXPECT_EQ(last["b64_json"], whole["b64_json"]);
  EXPECT_EQ(last["talon"]["depths"].size(), static_cast<std::size_t>(kSide * kSide));
  EXPECT_EQ(last["usage"]["output_tokens"], kSide * kSide);
  EXPECT_EQ(last["usage"]["total_tokens"], kSide * kSide + 6);
  EXPECT_EQ(last["usage"]["forwards"], last["talon"]["forwards"]);
}

TEST(StreamedPictures, TellWhichCellsWereDrafted) {
  const Json drafted =
      server().stream(asking({{"talon", {{"drafter", "jacobi"}, {"policy", "fixed"}}}}))[0];
  const Json plain = server().stream(asking({{"talon", {{"drafter", "none"}}}}))[0];
  EXPECT_EQ(plain["talon"]["forwards"], kSide * kSide);
  int own = 0;
  for (const Json& depth : drafted["talon"]["depths"]) own += depth == 0 ? 1 : 0;
  EXPECT_LE(std::abs(own - drafted["talon"]["forwards"].get<int>()), 1)
      << "one cell of each forward is the target's own";
  EXPECT_LT(own, kSide * kSide) << "some were drafted";
  for (const Json& depth : plain["talon"]["depths"]) EXPECT_EQ(depth, 0);
}

TEST(StreamedPictures, WithoutPartialImagesAreOneEventEach) {
  const Json whole = server().draw(asking({{"n", 3}})).json()["data"];
  const auto events = server().stream(asking({{"n", 3}}));
  ASSERT_EQ(events.size(), 3u);
  std::set<int> seen;
  for (const Json& event : events) {
    EXPECT_EQ(event["type"], "image_generation.completed");
    const int index = event["talon"]["index"];
    EXPECT_EQ(event["b64_json"], whole[static_cast<std::size_t>(index)]["b64_json"]);
    EXPECT_EQ(event["talon"]["seed"], 5 + index);
    seen.insert(index);
  }
  EXPECT_EQ(seen.size(), 3u);
}

TEST(StreamedPictures, ThatEndEarlySaySo) {
  const auto events = server().stream(asking({{"n", 8}, {"talon", {{"deadline_ms", 1}}}}));
  ASSERT_FALSE(events.empty());
  for (const Json& event : events) EXPECT_EQ(event["error"]["code"], "incomplete") << event;
  EXPECT_EQ(server().draw(asking({{"n", 8}, {"talon", {{"deadline_ms", 1}}}})).status, 503);
}

TEST(StreamedPictures, OfAClientThatLeavesAreCancelled) {
  // Much to draw, so that it is under way when the client leaves.
  constexpr int kLargeSide = 48;
  const PictureServer large(words_model(kLargeSide, kLargeSide));
  const Json much = asking({{"n", 16}, {"talon", {{"drafter", "none"}}}});
  {
    Client client(large.port());
    Json streamed = much;
    streamed.update({{"stream", true}, {"partial_images", kLargeSide}});
    client.send(post_text("/v1/images/generations", streamed.dump()));
    ASSERT_TRUE(client.read_until("image_generation.partial_image"));
  }
  EXPECT_TRUE(large.becomes_idle());
  const int then = large.cancelled();
  EXPECT_GT(then, 0);
  {
    Client client(large.port());
    client.send(post_text("/v1/images/generations", much.dump()));
    for (int i = 0; i < 1000 && large.get("/v1/load").json()["server_load"] == 0; ++i) {
    }
  }
  EXPECT_TRUE(large.becomes_idle());
  EXPECT_GT(large.cancelled(), then);
  EXPECT_EQ(large.draw(kAsk).status, 200) << "others are drawn";
}

TEST(StreamedPictures, ThatFindNoRoomAreNotBegun) {
  const PictureServer small(words_model(kSide, kSide), 1536);
  const Reply refused = small.draw(kAsk);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "guidance");
  EXPECT_NE(refused.body.find("expected a cache of 2304 positions, found "), std::string::npos)
      << refused.body;
  EXPECT_EQ(small.draw(asking({{"guidance", 1}})).status, 200) << "half of it";
  const Reply three = small.draw(asking({{"guidance", 1}, {"n", 3}}));
  EXPECT_EQ(three.status, 200) << "one after the other: " << three.body;
}

TEST(StreamedPictures, AreDrawnTogether) {
  const auto steps = [] {
    return server().get("/v1/load").json()["models"][0]["steps"].get<int>();
  };
  const int before = steps();
  const Json answer = server().draw(asking({{"n", 4}})).json();
  const int forwards = answer["usage"]["forwards"];
  int most = 0;
  for (const Json& picture : answer["data"])
    most = std::max(most, picture["talon"]["forwards"].get<int>());
  EXPECT_GE(steps() - before, most);
  EXPECT_LT(steps() - before, forwards / 2) << "pictures share steps";
}

}  // namespace
}  // namespace talon::test::picture_stream_test
