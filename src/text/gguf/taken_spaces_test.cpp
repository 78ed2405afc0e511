#include <gtest/gtest.h>

#include "io/test_files.h"
#include "text/gguf/write_tokenizer.h"
#include "text/tokenizer.h"

// White space behind marks that belongs to them: a tokenizer.json says so ("rstrip"), a GGUF not.
namespace talon::taken_spaces_test {
namespace {

const std::vector<std::string> kMarks = {"<unk>",         "<s>",      "</s>",
                                         "<|endoftext|>", "<|user|>", "<|end|>"};
const std::vector<std::string> kPieces = {"▁H", "▁Hi", "▁", "H", "i"};

std::vector<std::string> tokens() {
  std::vector<std::string> all = kMarks;
  for (int byte = 0; byte < 256; ++byte) all.push_back(fmt::format("<0x{:02X}>", byte));
  all.insert(all.end(), kPieces.begin(), kPieces.end());
  return all;
}

/// As the makers of Phi 3 publish it.
Json tokenizer_json() {
  Json vocabulary = Json::object(), added = Json::array();
  for (const std::string& token : tokens()) vocabulary[token] = vocabulary.size();
  for (const std::string& mark : kMarks) {
    const bool takes = mark == "</s>" || mark == "<|user|>" || mark == "<|end|>";
    added.push_back({{"id", vocabulary[mark]},
                     {"content", mark},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", takes},
                     {"normalized", false},
                     {"special", mark != "</s>"}});
  }
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", Json::parse(R"({"type": "Sequence", "normalizers": [
             {"type": "Prepend", "prepend": "▁"},
             {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})")},
          {"decoder", Json::parse(R"({"type": "Sequence", "decoders": [
             {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
             {"type": "ByteFallback"}, {"type": "Fuse"},
             {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})")},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocabulary},
            {"merges", {"▁ H", "▁H i"}}}}};
}

Json gguf(const std::string& architecture) {
  std::vector<int> types = {2, 3, 4, 3, 3, 3};
  types.resize(kMarks.size() + 256, 6);
  std::vector<float> scores(types.size(), 0.0F);
  for (std::size_t i = 0; i < kPieces.size(); ++i) {
    types.push_back(1);
    scores.push_back(-static_cast<float>(i) - 1);
  }
  return {{"general.architecture", architecture}, {"tokenizer.ggml.model", "llama"},
          {"tokenizer.ggml.tokens", tokens()},    {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.scores", scores},      {"tokenizer.ggml.bos_token_id", 1},
          {"tokenizer.ggml.eos_token_id", 3}};
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> pieces;
  for (const TokenId id : tokenizer.encode(text)) pieces.push_back(tokenizer.piece_of(id));
  return pieces;
}

TEST(TakenSpaces, BelongToMarksOfPhiInBothForms) {
  const test::TemporaryFolder folder;
  const auto file = folder.add("tokenizer.json", tokenizer_json().dump());
  const Tokenizer published = Tokenizer::from_json_file(file);
  const Tokenizer phi = Tokenizer::from_gguf(gguf("phi3"), "phi.gguf");
  EXPECT_EQ(pieces(phi, "<|user|>\nHi"), (std::vector<std::string>{"<|user|>", "▁Hi"}));
  for (const char* text : {"<|user|>\nHi", "<|user|> \r\n\t Hi<|end|>\n<|user|>Hi", "Hi<|end|>\n ",
                           "<|endoftext|>\nHi", "<s> Hi", "Hi</s>  Hi", "<|user|>\n<|endoftext|>\n",
                           "<|end|> <unk> Hi"}) {
    EXPECT_EQ(phi.encode(text), published.encode(text)) << text;
  }
}

TEST(TakenSpaces, AreTextInFilesOfOtherModels) {
  const Tokenizer llama = Tokenizer::from_gguf(gguf("llama"), "llama.gguf");
  EXPECT_EQ(pieces(llama, "<|user|>\nHi"),
            (std::vector<std::string>{"<|user|>", "▁", "<0x0A>", "H", "i"}));
}

TEST(TakenSpaces, OfAFolderAreKeptByAFileOfItsArchitectureAlone) {
  const test::TemporaryFolder folder;
  folder.add("tokenizer.json", tokenizer_json().dump());
  Checkpoint checkpoint;
  checkpoint.format = CheckpointFormat::hugging_face;
  checkpoint.path = folder.path();
  checkpoint.metadata = Json::object();
  const int rows = static_cast<int>(tokens().size());
  EXPECT_FALSE(write_gguf_tokenizer(checkpoint, rows, "phi3").empty());
  const std::string message =
      test::message_of([&] { write_gguf_tokenizer(checkpoint, rows, "llama"); });
  EXPECT_NE(message.find("expected the same ids"), std::string::npos) << message;
}

}  // namespace
}  // namespace talon::taken_spaces_test
