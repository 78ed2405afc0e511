#include <gtest/gtest.h>

#include "bench/peer/peer.h"
#include "core/error.h"

namespace talon::peer_name_test {
namespace {

TEST(Peers, AreMethodsWithAPlace) {
  EXPECT_TRUE(is_peer("peer:llama.cpp=/opt/llama"));
  EXPECT_FALSE(is_peer("ngram"));
  const PeerChoice plain = parse_peer("peer:llama.cpp=/opt/llama");
  EXPECT_EQ(plain.kind, PeerChoice::Kind::llama_cpp);
  EXPECT_EQ(plain.name, "peer:llama.cpp");
  EXPECT_EQ(plain.place, "/opt/llama");
  const PeerChoice drafting = parse_peer("peer:llama.cpp:ngram-simple=/opt/llama");
  EXPECT_EQ(drafting.name, "peer:llama.cpp:ngram-simple");
  EXPECT_EQ(drafting.speculation, "ngram-simple");
  EXPECT_EQ(drafting.draft, "");
  const PeerChoice head = parse_peer("peer:llama.cpp:draft-eagle3=/opt/llama#heads/a.gguf");
  EXPECT_EQ(head.name, "peer:llama.cpp:draft-eagle3");
  EXPECT_EQ(head.place, "/opt/llama");
  EXPECT_EQ(head.draft, "heads/a.gguf");
  const PeerChoice lookup = parse_peer("peer:openvino:prompt-lookup=build/peers/openvino");
  EXPECT_EQ(lookup.kind, PeerChoice::Kind::adapter);
  EXPECT_EQ(lookup.name, "peer:openvino:prompt-lookup");
  EXPECT_EQ(lookup.speculation, "prompt-lookup");
  EXPECT_EQ(parse_peer("peer:transformers=/x").kind, PeerChoice::Kind::adapter);
  EXPECT_EQ(parse_peer("peer:transformers:draft=/x#m.gguf").draft, "m.gguf");
  const PeerChoice endpoint = parse_peer("peer:openai=http://127.0.0.1:8000/v1#m");
  EXPECT_EQ(endpoint.kind, PeerChoice::Kind::openai);
  EXPECT_EQ(endpoint.name, "peer:openai");
  EXPECT_EQ(endpoint.place, "http://127.0.0.1:8000/v1#m");
}

TEST(Peers, OfOneEngineAreToldApartByTheirBuilds) {
  EXPECT_EQ(parse_peer("peer:llama.cpp=/a").engine, "llama.cpp");
  const PeerChoice plain = parse_peer("peer:llama.cpp@source=/opt/llama");
  EXPECT_EQ(plain.kind, PeerChoice::Kind::llama_cpp);
  EXPECT_EQ(plain.name, "peer:llama.cpp@source");
  EXPECT_EQ(plain.engine, "llama.cpp@source");
  EXPECT_EQ(plain.speculation, "");
  EXPECT_EQ(plain.place, "/opt/llama");
  const PeerChoice head = parse_peer("peer:llama.cpp@0.5.0-dev_1:draft-eagle3=/opt/a@b#head.gguf");
  EXPECT_EQ(head.name, "peer:llama.cpp@0.5.0-dev_1:draft-eagle3");
  EXPECT_EQ(head.engine, "llama.cpp@0.5.0-dev_1");
  EXPECT_EQ(head.speculation, "draft-eagle3");
  EXPECT_EQ(head.place, "/opt/a@b") << "a place may hold any letters";
  EXPECT_EQ(head.draft, "head.gguf");
  EXPECT_EQ(parse_peer("peer:openvino@nightly=/x").kind, PeerChoice::Kind::adapter);
  const PeerChoice endpoint = parse_peer("peer:openai@mine=http://u@h/v1#m");
  EXPECT_EQ(endpoint.kind, PeerChoice::Kind::openai);
  EXPECT_EQ(endpoint.name, "peer:openai@mine");
  EXPECT_EQ(endpoint.place, "http://u@h/v1#m");
}

TEST(Peers, ThatCannotBeMeantAreRefused) {
  const char* const refused[] = {"peer:llama.cpp",
                                 "peer:llama.cpp=",
                                 "peer:llama.cpp:=/x",
                                 "peer:gpt=/x",
                                 "peer:llama.cpp=/x#y",
                                 "peer:llama.cpp:draft-eagle3=/x#",
                                 "peer:llama.cpp:draft-eagle3=#y",
                                 "peer:openai:x=http://y",
                                 "peer:openai",
                                 "peer:=x",
                                 "peer:",
                                 "peer:openvino",
                                 "peer:openvino:=/x",
                                 "peer:transformers=/x#y",
                                 "peer:transformer=/x",
                                 "peer:llama.cpp@=/x",
                                 "peer:llama.cpp@a b=/x",
                                 "peer:llama.cpp@a@b=/x",
                                 "peer:llama.cpp@a+b=/x",
                                 "peer:llama.cpp:ngram-simple@a=/x",
                                 "peer:@a=/x",
                                 "peer:llama.cpp@a",
                                 "llama=/x",
                                 "x"};
  for (const char* method : refused) {
    EXPECT_THROW(parse_peer(method), UsageError) << method;
  }
}

}  // namespace
}  // namespace talon::peer_name_test
