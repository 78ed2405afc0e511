#include "text/gguf/write_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "core/error.h"
#include "io/test_files.h"
#include "text/tokenizer.h"

namespace talon::write_tokenizer_test {
namespace {

namespace fs = std::filesystem;

const fs::path kText = fs::path(TALON_TEST_DATA) / "text";

/// A checkpoint of which only the folder counts.
Checkpoint folder(const fs::path& path) {
  Checkpoint checkpoint;
  checkpoint.format = CheckpointFormat::hugging_face;
  checkpoint.path = path;
  checkpoint.metadata = Json::object();
  return checkpoint;
}

Json object_of(const GgufMetadata& keys) {
  Json object = Json::object();
  for (const auto& [key, value] : keys) object[key] = value;
  return object;
}

/// tests/data/text/byte_level with one part of its pipeline changed.
class ChangedTokenizer {
 public:
  explicit ChangedTokenizer(const std::function<void(Json&)>& change) {
    for (const char* name : {"tokenizer_config.json", "generation_config.json"}) {
      fs::copy_file(kText / "byte_level" / name, folder_.path() / name);
    }
    std::ifstream file(kText / "byte_level/tokenizer.json");
    Json json = Json::parse(file);
    change(json);
    std::ofstream(folder_.path() / "tokenizer.json") << json.dump();
  }
  Checkpoint checkpoint() const { return folder(folder_.path()); }

 private:
  test::TemporaryFolder folder_;
};

void set_split(Json& json, const std::string& pattern) {
  json["normalizer"] = nullptr;
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Regex", pattern}};
}

constexpr const char* kQwen2 =
    R"x((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)x";

void expect_same(const Checkpoint& checkpoint, const Json& keys) {
  const Tokenizer before = Tokenizer::for_checkpoint(checkpoint);
  const Tokenizer after = Tokenizer::from_gguf(keys, "written");
  for (const char* text :
       {"The quick brown fox, 1234 times: don't! ", "caf\u00e9  \n\n x", "<s>a"}) {
    EXPECT_EQ(before.encode(text, {.add_start = true}), after.encode(text, {.add_start = true}));
    EXPECT_EQ(before.decode(before.encode(text)), after.decode(after.encode(text)));
  }
  EXPECT_EQ(before.end_tokens(), after.end_tokens());
  EXPECT_EQ(before.chat_template(), after.chat_template());
  EXPECT_EQ(before.tool_template(), after.tool_template());
}

TEST(WriteGgufTokenizer, NamesTheCuttingOfAByteLevelTokenizer) {
  const ChangedTokenizer changed([](Json& json) {
    set_split(json, kQwen2);
    json["normalizer"] = {{"type", "NFC"}};
  });
  const Json keys = object_of(write_gguf_tokenizer(changed.checkpoint(), 640));
  EXPECT_EQ(keys["tokenizer.ggml.model"], "gpt2");
  EXPECT_EQ(keys["tokenizer.ggml.pre"], "qwen2");
  expect_same(changed.checkpoint(), keys);
}

TEST(WriteGgufTokenizer, FindsTheNameOfACuttingThatIsSpelledOtherwise) {
  const ChangedTokenizer changed([](Json& json) {
    set_split(json, "(?:" + std::string(kQwen2) + ")");  // the same pieces
  });
  const Json keys = object_of(write_gguf_tokenizer(changed.checkpoint(), 640));
  EXPECT_EQ(keys["tokenizer.ggml.pre"], "hunyuan");  // as qwen2, but for composing characters
  expect_same(changed.checkpoint(), keys);
}

TEST(WriteGgufTokenizer, FillsTheRowsThatNoTokenHas) {
  const ChangedTokenizer changed([](Json& json) { set_split(json, kQwen2); });
  const Json keys = object_of(write_gguf_tokenizer(changed.checkpoint(), 640));
  ASSERT_EQ(keys["tokenizer.ggml.tokens"].size(), 640U);
  EXPECT_EQ(keys["tokenizer.ggml.tokens"][639], "[PAD639]");
  EXPECT_EQ(keys["tokenizer.ggml.token_type"][639], 5);
  EXPECT_EQ(keys["tokenizer.ggml.token_type"][601], 3);  // <|im_start|>
  EXPECT_NE(test::message_of([&] {
              write_gguf_tokenizer(changed.checkpoint(), 600);
            }).find("at most 600 tokens"),
            std::string::npos);
}

/// "<|im_end|>" ends an answer and has no row, as "<tool>", which is special here.
TEST(WriteGgufTokenizer, LeavesSpecialTokensWithoutARowOut) {
  const auto model = [](bool special) {
    return ChangedTokenizer([special](Json& json) {
      set_split(json, kQwen2);
      json["normalizer"] = {{"type", "NFC"}};
      json["added_tokens"][3]["special"] = special;
    });
  };
  const ChangedTokenizer changed = model(true);
  const Json keys = object_of(write_gguf_tokenizer(changed.checkpoint(), 602));
  EXPECT_EQ(keys["tokenizer.ggml.tokens"].size(), 602U);
  const Tokenizer written = Tokenizer::from_gguf(keys, "written");
  EXPECT_EQ(written.end_tokens(), std::vector<TokenId>{600});
  const Tokenizer tokenizer = Tokenizer::for_checkpoint(changed.checkpoint());
  EXPECT_EQ(written.encode("<|im_start|>abc"), tokenizer.encode("<|im_start|>abc"));
  const std::string refusal =
      test::message_of([&] { write_gguf_tokenizer(model(false).checkpoint(), 602); });
  EXPECT_NE(refusal.find("at most 602 tokens"), std::string::npos) << refusal;
}

TEST(WriteGgufTokenizer, KeepsTheTemplateOfChatsWithTools) {
  const ChangedTokenizer changed([](Json& json) {
    set_split(json, kQwen2);
    json["normalizer"] = {{"type", "NFC"}};
  });
  std::ofstream(changed.checkpoint().path / "chat_template.jinja") << "one";
  const fs::path more = changed.checkpoint().path / "additional_chat_templates";
  fs::create_directories(more);
  std::ofstream(more / "tool_use.jinja") << "two";
  const Json keys = object_of(write_gguf_tokenizer(changed.checkpoint(), 640));
  EXPECT_EQ(keys["tokenizer.chat_templates"], Json::array({"tool_use"}));
  EXPECT_EQ(keys["tokenizer.chat_template.tool_use"], "two");
  expect_same(changed.checkpoint(), keys);
}

TEST(WriteGgufTokenizer, ScoresPiecesByTheirMerges) {
  const Checkpoint model = folder(kText / "llama_style");
  const Json keys =
      object_of(write_gguf_tokenizer(model, Tokenizer::for_checkpoint(model).vocabulary_size()));
  EXPECT_EQ(keys["tokenizer.ggml.model"], "llama");
  EXPECT_EQ(keys["tokenizer.ggml.add_space_prefix"], true);
  EXPECT_EQ(keys["tokenizer.ggml.unknown_token_id"], 0);
  EXPECT_EQ(keys["tokenizer.ggml.token_type"][13], 6);  // <0x0A>
  expect_same(model, keys);
}

TEST(WriteGgufTokenizer, TakesTheScoresOfASentencePieceModel) {
  const Checkpoint model = folder(kText / "spm_bpe");
  const Tokenizer tokenizer = Tokenizer::for_checkpoint(model);
  const Json keys = object_of(write_gguf_tokenizer(model, tokenizer.vocabulary_size()));
  EXPECT_EQ(keys["tokenizer.ggml.model"], "llama");
  expect_same(model, keys);
}

std::set<TokenId> ends_of(const Tokenizer& tokenizer) {
  return {tokenizer.end_tokens().begin(), tokenizer.end_tokens().end()};
}

TEST(WriteGgufTokenizer, RefusesToLoseAnEndToken) {
  const ChangedTokenizer changed([](Json& json) { set_split(json, kQwen2); });
  const fs::path settings = changed.checkpoint().path / "generation_config.json";
  std::ofstream(settings) << R"({"eos_token_id": [20, 21]})";
  const Json keys = object_of(write_gguf_tokenizer(changed.checkpoint(), 640));
  EXPECT_EQ(ends_of(Tokenizer::from_gguf(keys, "written")),
            ends_of(Tokenizer::for_checkpoint(changed.checkpoint())));
  std::ofstream(settings) << R"({"eos_token_id": [20, 21, 22, 23]})";
  const std::string refusal =
      test::message_of([&] { write_gguf_tokenizer(changed.checkpoint(), 640); });
  EXPECT_NE(refusal.find("at most three end tokens"), std::string::npos) << refusal;
}

TEST(WriteGgufTokenizer, RefusesWhatGgufHasNoNameFor) {
  const auto refusal = [](const Checkpoint& model) {
    return test::message_of([&] { write_gguf_tokenizer(model, 4096); });
  };
  const ChangedTokenizer other([](Json& json) { set_split(json, "[aeiou]"); });
  EXPECT_NE(refusal(other.checkpoint()).find("cuts text as one"), std::string::npos);
  for (const char* name : {"unigram", "spm_unigram"}) {
    EXPECT_NE(refusal(folder(kText / name)).find("nigram"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace talon::write_tokenizer_test
