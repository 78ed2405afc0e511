#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "text/tokenizer.h"

namespace talon::folder_tokenizer_test {
namespace {

namespace fs = std::filesystem;

/// A copy of a fixture's folder, to be changed.
class Folder : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::path(testing::TempDir()) /
            (std::string("talon_folder_") +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(path_);
  }
  void TearDown() override { fs::remove_all(path_); }

  void copy(const char* fixture) {
    fs::copy(fs::path(TALON_TEST_DATA "/text") / fixture, path_, fs::copy_options::recursive);
  }
  void write(const char* name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  std::string error() const {
    try {
      load();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  Tokenizer load() const {
    const Checkpoint checkpoint{.format = CheckpointFormat::hugging_face,
                                .path = path_,
                                .metadata = Json::object(),
                                .tensors = {},
                                .files = {},
                                .owned = {}};
    return Tokenizer::for_checkpoint(checkpoint);
  }

  fs::path path_;
};

void expect_named(const std::string& message, std::string_view named) {
  EXPECT_NE(message.find(named), std::string::npos) << message;
}

TEST_F(Folder, WithoutATokenizerSaysWhatWasLookedFor) {
  fs::create_directories(path_);
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "tekken.json", "tiktoken.model", "*.tiktoken"}) {
    expect_named(error(), name);
  }
}

TEST_F(Folder, PrefersTokenizerJson) {
  copy("byte_level");
  fs::copy(TALON_TEST_DATA "/text/spm_bpe/tokenizer.model", path_);
  EXPECT_EQ(load().kind(), "byte-level BPE");
  fs::remove(path_ / "tokenizer.json");
  fs::remove(path_ / "generation_config.json");
  EXPECT_EQ(load().kind(), "SentencePiece BPE");
}

TEST_F(Folder, DamagedFilesAreNamed) {
  copy("byte_level");
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "generation_config.json", "config.json", "chat_template.json"}) {
    const fs::path saved = path_ / "saved";
    const bool existed = fs::exists(path_ / name);
    if (existed) fs::rename(path_ / name, saved);
    for (const char* text : {"{", "[]", "{\"a\": 1,}", "\xFF", "nul"}) {
      // The list of named templates comes first: without it, this file is read.
      if (std::string_view(name) == "chat_template.json") write("tokenizer_config.json", "{}");
      write(name, text);
      expect_named(error(), name);
    }
    fs::remove(path_ / name);
    if (existed) fs::rename(saved, path_ / name);
  }
  write("tokenizer.json", "{\"version\": 1.0");
  expect_named(error(), "tokenizer.json");
  write("tokenizer.json", "{}");
  expect_named(error(), "tokenizer.json");
}

TEST_F(Folder, EveryTruncationOfTokenizerJsonIsAnError) {
  copy("unigram");
  std::ifstream file(path_ / "tokenizer.json", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  for (std::size_t size = 1; size + 1 < whole.size(); size += size < 2000 ? 7 : 211) {
    write("tokenizer.json", whole.substr(0, size));
    expect_named(error(), "tokenizer.json");
  }
}

TEST_F(Folder, WhatIsNoIdIsAnErrorAndOneBehindTheVocabularyIsPassedOver) {
  copy("byte_level");
  const auto write_ends = [&](const std::string& value) {
    write("generation_config.json", "{\"eos_token_id\": " + value + "}");
  };
  for (const char* value : {"-1", "[1, -1]", "\"2\"", "18446744073709551615", "1.5", "true"}) {
    write_ends(value);
    expect_named(error(), "eos_token_id");
  }
  write_ends("1");
  const auto ends = load().end_tokens();
  for (const char* value : {"[1, 99999]", "[50279, 1]"}) {
    write_ends(value);
    EXPECT_EQ(load().end_tokens(), ends) << value;
  }
}

TEST_F(Folder, StartTokenIsWantedOrNotAsTheConfigurationSays) {
  copy("llama_style");
  EXPECT_TRUE(load().wants_start_token());
  write("tokenizer_config.json", R"({"add_bos_token": false})");
  EXPECT_FALSE(load().wants_start_token());
  EXPECT_EQ(load().start_token(), 1);
}

TEST_F(Folder, AllThatAPostProcessorPutsBeforeATextIsPutThere) {
  copy("llama_style");
  std::ifstream file(path_ / "tokenizer.json");
  Json json = Json::parse(file);
  Json& processor = json["post_processor"];
  processor["special_tokens"]["</s>"] = {{"id", "</s>"}, {"ids", {2}}, {"tokens", {"</s>"}}};
  const Json second = {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}};
  processor["single"].insert(processor["single"].begin() + 1, second);
  write("tokenizer.json", json.dump());
  const auto ids = [&](const char* text) { return load().encode(text, {.add_start = true}); };
  std::vector<TokenId> expected = load().encode("the");
  expected.insert(expected.begin(), {1, 2});
  EXPECT_EQ(ids("the"), expected);
  EXPECT_EQ(ids(""), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(ids("<s>the"), load().encode("<s>the"));
  EXPECT_EQ(load().start_token(), 1);
  // Another start token stands alone.
  write("tokenizer_config.json", R"({"bos_token": "<unk>", "add_bos_token": true})");
  expected.erase(expected.begin());
  expected[0] = 0;
  EXPECT_EQ(ids("the"), expected);
}

TEST_F(Folder, ChatsWithToolsMayHaveATemplateOfTheirOwn) {
  copy("byte_level");
  EXPECT_EQ(load().tool_template(), std::nullopt);
  constexpr const char* kTwo = R"({"chat_template": [{"name": "default", "template": "one"},
                                                     {"name": "tool_use", "template": "two"}]})";
  write("tokenizer_config.json", kTwo);
  EXPECT_EQ(load().chat_template(), "one");
  EXPECT_EQ(load().tool_template(), "two");
  write("tokenizer_config.json", "{}");
  write("chat_template.json", kTwo);
  EXPECT_EQ(load().tool_template(), "two");
  write("chat_template.jinja", "own file");  // which leaves no list
  EXPECT_EQ(load().tool_template(), std::nullopt);
  fs::create_directories(path_ / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "file of tools");
  EXPECT_EQ(load().chat_template(), "own file");
  EXPECT_EQ(load().tool_template(), "file of tools");
}

TEST_F(Folder, ATemplateOfItsOwnFileComesFirst) {
  copy("byte_level");
  write("chat_template.jinja", "own file");
  EXPECT_EQ(load().chat_template(), "own file");
  fs::remove(path_ / "chat_template.jinja");
  write("tokenizer_config.json", R"({"chat_template": "one"})");
  EXPECT_EQ(load().chat_template(), "one");
  write("tokenizer_config.json", "{}");
  EXPECT_EQ(load().chat_template(), std::nullopt);
  write("chat_template.json", R"({"chat_template": "beside"})");
  EXPECT_EQ(load().chat_template(), "beside");
}

TEST_F(Folder, AnEmptyTemplateIsNone) {
  copy("byte_level");
  write("tokenizer_config.json", R"({"chat_template": ""})");
  EXPECT_EQ(load().chat_template(), std::nullopt);
}

TEST_F(Folder, TokensThatOnlyTheConfigurationListsFollowThoseOfTokenizerJson) {
  copy("byte_level");
  const int known = load().vocabulary_size();
  const auto list = [&](int first) {
    write("tokenizer_config.json",
          fmt::format(R"({{"added_tokens_decoder": {{"{}": {{"content": "<more>", "special": true}},
                         "{}": {{"content": "<last>", "special": false}}}}}})",
                      first, first + 1));
  };
  list(known);
  write("config.json", fmt::format(R"({{"vocab_size": {}}})", known + 1));
  const Tokenizer tokenizer = load();  // the model has no row for the second
  EXPECT_EQ(tokenizer.vocabulary_size(), known + 1);
  EXPECT_EQ(tokenizer.encode("<more>"), std::vector<TokenId>{known});
  EXPECT_TRUE(tokenizer.is_special(known));
  write("config.json", fmt::format(R"({{"text_config": {{"vocab_size": {}}}}})", known + 2));
  EXPECT_EQ(load().encode("<last>"), std::vector<TokenId>{known + 1});
  list(known + 1);  // it would get another number
  EXPECT_EQ(load().vocabulary_size(), known);
}

TEST_F(Folder, AddedTokensOfASentencePieceModelAreRead) {
  copy("spm_bpe");
  write("added_tokens.json", R"({"<|im_end|>": 700})");
  write("tokenizer_config.json",
        R"({"eos_token": "<|im_end|>", "added_tokens_decoder": {
             "0": {"content": "<unk>", "special": true}, "701": {"content": "<tool>", "special": false}}})");
  const Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.vocabulary_size(), 702);
  EXPECT_EQ(tokenizer.encode("<|im_end|><tool>"), (std::vector<TokenId>{700, 701}));
  EXPECT_TRUE(tokenizer.is_special(700));
  EXPECT_FALSE(tokenizer.is_special(701));
  EXPECT_EQ(tokenizer.end_tokens().front(), 700);
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "a"}}})");
  expect_named(error(), "added_tokens_decoder");
}

}  // namespace
}  // namespace talon::folder_tokenizer_test
