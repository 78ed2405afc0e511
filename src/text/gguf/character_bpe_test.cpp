#include "text/gguf/character_bpe.h"

#include <gtest/gtest.h>

#include <fstream>

#include "io/test_files.h"
#include "text/detokenizer.h"
#include "text/gguf/token_list.h"
#include "text/gguf/write_tokenizer.h"
#include "text/tokenizer.h"

namespace talon::character_bpe_test {
namespace {

using Pieces = std::vector<std::string>;

/// A GGUF as it is written for Gemma 4: what the maker's file adds is of the ordinary type.
Json gemma4() {
  Json tokens = {"<pad>", "<eos>", "<bos>", "<unk>", "<turn|>", "<|tool_response>", "<|\"|>"};
  Json types = {3, 3, 3, 3, 3, 4, 4};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(kByte);
  }
  for (const char* piece : {"\n", "\n\n", "\n\n\n", "▁", "▁▁", "a", "b", "ab", "▁ab", "▁▁ab", "é",
                            "<table>", "\t\t", "x▁y", "é▁"}) {
    tokens.push_back(piece);
    types.push_back(kNormal);
  }
  return {{"tokenizer.ggml.model", "gemma4"},
          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.merges", {"a b", "▁ ▁", "▁ ab", "▁▁ ab", "\t \t", "é ▁"}},
          {"tokenizer.ggml.bos_token_id", 2},
          {"tokenizer.ggml.eos_token_id", 1},
          {"tokenizer.ggml.add_bos_token", false}};
}

Tokenizer load(const Json& metadata) { return Tokenizer::from_gguf(metadata, "model.gguf"); }

Pieces pieces(const Tokenizer& tokenizer, std::string_view text) {
  Pieces pieces;
  for (const TokenId id : tokenizer.encode(text)) pieces.push_back(tokenizer.piece_of(id));
  return pieces;
}

TEST(CharacterBpe, MergesCharactersAndSpellsOthersInBytes) {
  const Tokenizer tokenizer = load(gemma4());
  EXPECT_EQ(pieces(tokenizer, "ab  ab é "), (Pieces{"ab", "▁▁ab", "▁", "é▁"}));
  EXPECT_EQ(pieces(tokenizer, "\u20ac\tc"),
            (Pieces{"<0xE2>", "<0x82>", "<0xAC>", "<0x09>", "<0x63>"}));
  const std::string text = " ab\u20ac  \t\t\r\n \n\n\n\n\U0001F600 <table>\u00e9 b\n";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(CharacterBpe, AMergeSpellsACharacterWhoseTokenIsThatOfItsByte) {
  EXPECT_EQ(pieces(load(gemma4()), "\t\t\t"), (Pieces{"\t\t", "<0x09>"}));
}

TEST(CharacterBpe, LineBreaksStandApart) {
  Json metadata = gemma4();
  metadata["tokenizer.ggml.tokens"].push_back("b\n");
  metadata["tokenizer.ggml.token_type"].push_back(kNormal);
  metadata["tokenizer.ggml.merges"].push_back("b \n");
  EXPECT_EQ(pieces(load(metadata), "b\n"), (Pieces{"b", "\n"}));
}

TEST(CharacterBpe, WhatNoMergeGivesIsFoundWhole) {
  const Tokenizer tokenizer = load(gemma4());
  EXPECT_EQ(pieces(tokenizer, "a\n\n\n\n\nb"), (Pieces{"a", "\n\n\n", "\n\n", "b"}));
  EXPECT_EQ(pieces(tokenizer, "a<table>b"), (Pieces{"a", "<table>", "b"}));
  // But for what spells a space: texts have other spaces.
  EXPECT_EQ(pieces(tokenizer, "x y").size(), 3U);
}

TEST(CharacterBpe, MergesOfLineBreaksAreKept) {
  Json metadata = gemma4();
  metadata["tokenizer.ggml.merges"].push_back("\n \n");
  EXPECT_EQ(pieces(load(metadata), "\n\n\n\n"),
            (Pieces{"\n\n\n", "\n"}));  // that of three is added
  metadata["tokenizer.ggml.merges"].push_back("\n\n \n");
  EXPECT_EQ(pieces(load(metadata), "\n\n\n\n"), (Pieces{"\n\n", "\n\n"}));
}

TEST(CharacterBpe, GemmaBeginsWithItsStartTokenWhateverTheFileSays) {
  EXPECT_TRUE(load(gemma4()).wants_start_token());
  Json metadata = gemma4();
  metadata["tokenizer.ggml.model"] = "gpt2";
  metadata["tokenizer.ggml.pre"] = "sarvam-moe";
  EXPECT_FALSE(load(metadata).wants_start_token());
  EXPECT_EQ(pieces(load(metadata), "ab  ab"), (Pieces{"ab", "▁▁ab"}));
}

TEST(CharacterBpe, MarksThatTheFileShowsAreSpecial) {
  const Tokenizer tokenizer = load(gemma4());
  EXPECT_TRUE(tokenizer.is_special(5));
  EXPECT_TRUE(tokenizer.is_special(6));
  EXPECT_EQ(tokenizer.end_tokens(), (std::vector<TokenId>{1, 4, 5}));
}

TEST(CharacterBpe, ACharacterComesInParts) {
  const Tokenizer tokenizer = load(gemma4());
  Detokenizer detokenizer(tokenizer, true, false);
  std::vector<std::string> parts;
  for (const TokenId id : tokenizer.encode(" \U0001F600a")) parts.push_back(detokenizer.push(id));
  EXPECT_EQ(parts, (Pieces{" ", "", "", "", "\U0001F600", "a"}));
}

TEST(CharacterBpe, AVocabularyWithoutAByteIsRefused) {
  Json metadata = gemma4();
  for (Json& token : metadata["tokenizer.ggml.tokens"]) {
    if (token == "<0xE2>") token = "other";
  }
  const std::string refusal = test::message_of([&] { load(metadata); });
  EXPECT_NE(refusal.find("<0xE2>"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("model.gguf"), std::string::npos) << refusal;
}

/// A tokenizer.json in the form of Gemma 4's.
Json maker_file(bool starts) {
  const Json gguf = gemma4();
  Json vocabulary = Json::object(), added = Json::array();
  const Json& tokens = gguf["tokenizer.ggml.tokens"];
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    vocabulary[tokens[id].get<std::string>()] = id;
    const auto text = tokens[id].get<std::string>();
    const bool is_added = text == "<table>" || text.starts_with('\n') || text == "▁▁";
    if (id >= 7 && !is_added) continue;
    added.push_back({{"id", id},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", id < 7}});
  }
  vocabulary["\t"] = vocabulary["<0x09>"];
  Json json = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}},
      {"pre_tokenizer",
       {{"type", "Split"},
        {"pattern", {{"String", " "}}},
        {"behavior", "MergedWithPrevious"},
        {"invert", false}}},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
          {{"type", "ByteFallback"}},
          {{"type", "Fuse"}}}}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", "<unk>"},
        {"fuse_unk", true},
        {"byte_fallback", true},
        {"vocab", vocabulary},
        {"merges", gguf["tokenizer.ggml.merges"]}}}};
  if (starts) {
    json["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<bos>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair", Json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
        {"special_tokens", {{"<bos>", {{"id", "<bos>"}, {"ids", {2}}, {"tokens", {"<bos>"}}}}}}};
  }
  return json;
}

TEST(CharacterBpe, AFolderBecomesAGgufOfTheSameIds) {
  for (const bool starts : {true, false}) {
    const test::TemporaryFolder folder;
    folder.add("tokenizer.json", maker_file(starts).dump());
    folder.add("tokenizer_config.json", R"({"bos_token": "<bos>", "eos_token": "<eos>"})");
    Checkpoint checkpoint;
    checkpoint.format = CheckpointFormat::hugging_face;
    checkpoint.path = folder.path();
    checkpoint.metadata = Json::object();
    Json keys = Json::object();
    for (const auto& [key, value] : write_gguf_tokenizer(checkpoint, 290)) keys[key] = value;
    EXPECT_EQ(keys["tokenizer.ggml.model"], starts ? "gemma4" : "gpt2");
    EXPECT_EQ(keys["tokenizer.ggml.pre"], starts ? "gemma4" : "sarvam-moe");
    const Tokenizer before = Tokenizer::for_checkpoint(checkpoint), after = load(keys);
    for (const char* text :
         {"ab  ab\t\t\t \n\n\n\n\n\u20ac <table> x y", "  <|\"|>a<turn|>\n", "é é"}) {
      EXPECT_EQ(before.encode(text, {.add_start = true}), after.encode(text, {.add_start = true}));
      EXPECT_EQ(after.decode(after.encode(text, {}), false),
                before.decode(before.encode(text), false));
    }
    EXPECT_EQ(before.decode(before.encode("ab  b")), "ab  b");
    EXPECT_EQ(before.end_tokens(), after.end_tokens());
  }
}

}  // namespace
}  // namespace talon::character_bpe_test
