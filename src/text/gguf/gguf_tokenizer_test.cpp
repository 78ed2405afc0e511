#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "core/error.h"
#include "io/test_files.h"
#include "text/gguf/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace talon::gguf_tokenizer_test {
namespace {

/// GPT-2's spelling of a byte.
std::string spell(int byte) {
  const bool printable =
      (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
  int code = byte;
  if (!printable) code = byte < 0x21 ? 0x100 + byte : byte < 0xA1 ? 0x121 + byte - 0x7F : 0x143;
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

/// Ids 0 to 255 are the bytes; then runs of digits and letters, which show where text was cut.
Json byte_level(const std::string& pre) {
  Json tokens = Json::array();
  Json types = Json::array();
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(spell(byte));
  for (const char* token :
       {"11", "111", "1111", "Ġ1", "ab", "<|end|>", "<|im_end|>", "<user>", "Ã©"}) {
    tokens.push_back(token);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) types.push_back(1);
  types[261] = types[262] = 3;
  types[263] = 4;
  return {{"tokenizer.ggml.model", "gpt2"},
          {"tokenizer.ggml.pre", pre},
          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.merges", {"1 1", "11 1", "11 11", "Ġ 1", "a b", "Ã ©"}},
          {"tokenizer.ggml.bos_token_id", 261},
          {"tokenizer.ggml.eos_token_id", 261}};
}

Json sentencepiece() {
  Json tokens = {"<unk>", "<s>", "</s>"};
  Json types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(6);
  }
  Json scores = std::vector<float>(259, 0.0F);
  float score = 0.0F;
  for (const char* piece : {"▁a", "ab", "▁", "a", "b", "<user>"}) {
    tokens.push_back(piece);
    types.push_back(1);
    scores.push_back(score -= 1.0F);
  }
  types.back() = 4;
  return {{"tokenizer.ggml.model", "llama"},       {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types},    {"tokenizer.ggml.scores", scores},
          {"tokenizer.ggml.bos_token_id", 1},      {"tokenizer.ggml.eos_token_id", 2},
          {"tokenizer.chat_template", "{{ 'x' }}"}};
}

Tokenizer load(const Json& metadata) { return Tokenizer::from_gguf(metadata, "model.gguf"); }

std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> pieces;
  for (const TokenId id : tokenizer.encode(text)) pieces.push_back(tokenizer.piece_of(id));
  return pieces;
}

using Pieces = std::vector<std::string>;

TEST(GgufByteLevel, EachPreTokenizerCutsDigitsAsItsModelDoes) {
  EXPECT_EQ(pieces(load(byte_level("gpt-2")), "1111 1"), (Pieces{"1111", "Ġ1"}));
  EXPECT_EQ(pieces(load(byte_level("default")), "1111 1"), (Pieces{"1111", "Ġ1"}));
  EXPECT_EQ(pieces(load(byte_level("llama-bpe")), "1111 1"), (Pieces{"111", "1", "Ġ", "1"}));
  EXPECT_EQ(pieces(load(byte_level("qwen2")), "11 1"), (Pieces{"1", "1", "Ġ", "1"}));
  EXPECT_EQ(pieces(load(byte_level("smollm")), "11 1"), (Pieces{"1", "1", "Ġ", "1"}));
}

/// How a pre-tokenizer cuts text, where every piece that it leaves whole is a token.
struct Cut {
  const char* pre;
  const char* text;
  std::vector<std::string> pieces;
};
void PrintTo(const Cut& cut, std::ostream* out) { *out << cut.pre << ": " << cut.text; }

class PreTokenizers : public testing::TestWithParam<Cut> {};

/// A vocabulary in which the expected pieces, and any two of them side by side, are tokens: a
/// missing cut would show as a longer piece.
Json vocabulary_for(const Cut& cut) {
  Json metadata = byte_level(cut.pre);
  Json& tokens = metadata["tokenizer.ggml.tokens"];
  Json& merges = metadata["tokenizer.ggml.merges"];
  tokens = Json::array();
  merges = Json::array();
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(spell(byte));
  std::set<std::string> known;
  const auto learn = [&](const std::string& bytes) {
    std::string token = spell(static_cast<unsigned char>(bytes[0]));
    for (std::size_t i = 1; i < bytes.size(); ++i) {
      const std::string next = spell(static_cast<unsigned char>(bytes[i]));
      if (known.insert(token + next).second) {
        tokens.push_back(token + next);
        merges.push_back(token + " " + next);
      }
      token += next;
    }
  };
  for (std::size_t i = 0; i < cut.pieces.size(); ++i) {
    learn(cut.pieces[i]);
    if (i > 0) learn(cut.pieces[i - 1] + cut.pieces[i]);
  }
  metadata["tokenizer.ggml.token_type"] = std::vector<int>(tokens.size(), 1);
  metadata["tokenizer.ggml.bos_token_id"] = metadata["tokenizer.ggml.eos_token_id"] = 0;
  return metadata;
}

TEST_P(PreTokenizers, CutTextAsTheModelsMakersDo) {
  const Tokenizer tokenizer = load(vocabulary_for(GetParam()));
  std::vector<std::string> found;
  for (const TokenId id : tokenizer.encode(GetParam().text)) {
    found.push_back(tokenizer.bytes_of(id));
  }
  EXPECT_EQ(found, GetParam().pieces);
}

// The expected pieces follow from the published regular expressions.
const Cut kCuts[] = {
    {"gpt-2", "It's 2024!", {"It", "'s", " 2024", "!"}},
    {"gpt-2", "a   b\n\nc", {"a", "  ", " b", "\n", "\n", "c"}},
    {"phi-2", "you'LL", {"you", "'", "LL"}},
    {"mpt", "It's 2024!", {"It", "'s", " 2024", "!"}},
    {"olmo", "x 12 \u4f60\u597d", {"x", " 12", " \u4f60\u597d"}},
    {"smollm", "It's 24!", {"It", "'s", " ", "2", "4", "!"}},
    {"codeshell", "f(12)", {"f", "(", "1", "2", ")"}},
    {"exaone", "in 24", {"in", " ", "2", "4"}},
    {"minerva-7b", "in 24", {"in", " ", "2", "4"}},
    {"command-r", "it's 42\n", {"it", "'s", " ", "4", "2", "\n"}},
    {"falcon", "hi!! 12345", {"hi", "!!", " ", "123", "45"}},
    {"falcon", "it's", {"it", "'", "s"}},
    {"llama-bpe", "IT'S 2024!", {"IT", "'S", " ", "202", "4", "!"}},
    {"lfm2", "IT'S 2024!", {"IT", "'S", " ", "202", "4", "!"}},
    {"dbrx", "x;\n2024", {"x", ";\n", "202", "4"}},
    {"smaug-bpe", "x;\n2024", {"x", ";\n", "202", "4"}},
    {"glm4", "in \u4f60\u597d 2024", {"in", " \u4f60\u597d", " ", "202", "4"}},
    {"qwen2", "go 24", {"go", " ", "2", "4"}},
    {"qwen2", "q\u0301", {"q", "\u0301"}},
    {"qwen35", "q\u0301 24", {"q\u0301", " ", "2", "4"}},
    {"stablelm2", "go 24", {"go", " ", "2", "4"}},
    {"grok-2", "it'S 24", {"it", "'S", " ", "2", "4"}},
    {"ufakzeka", "Ali'de 24", {"Ali", "'de", " ", "2", "4"}},
    {"laguna", "a.\nb", {"a", ".", "\n", "b"}},
    {"seed-coder", "a;\nb 12", {"a", ";", "\n", "b", " ", "1", "2"}},
    {"bailingmoe", "it'll go\n\n72", {"it", "'ll", " go", "\n\n", "7", "2"}},
    {"exaone-moe", "see you 34", {"see you", " ", "3", "4"}},
    {"minicpm5", "v 12345", {"v", " ", "123", "45"}},
    {"jais-2", "a\t\v\f \t\v b 1234", {"a", "\t\v\f ", "\t\v", " b", " ", "123", "4"}},
    {"tekken", "fooBar 24", {"foo", "Bar", " ", "2", "4"}},
    {"gpt-4o", "HelloWorld's 12345//\n", {"Hello", "World's", " ", "123", "45", "//\n"}},
    {"llama4", "of\u4f60\u597dx", {"of\u4f60\u597dx"}},
    {"kimi-k2", "of\u4f60\u597dx 1234", {"of", "\u4f60\u597d", "x", " ", "123", "4"}},
    {"tiny_aya", "it's 1234567", {"it's", " ", "1", "234", "567"}},
    {"superbpe", "go 1234567", {"go ", "1", "234", "567"}},
    {"youtu", "fooBar\uff0c12", {"foo", "Bar", "\uff0c", "1", "2"}},
    {"bloom", "a.b, c (12)", {"a", ".", "b", ",", " c", " (", "12", ")"}},
    {"poro-chat", "a.b", {"a", ".", "b"}},
    {"viking", "ab 12.", {"ab", " ", "1", "2", "."}},
    {"chameleon", "a  b!! 12", {"a", "  ", "b", "!", "!", " ", "1", "2"}},
    {"deepseek-llm", "hi, you 2024\n", {"hi", ",", " you", " ", "2024", "\n"}},
    {"deepseek-llm", "is \u4f60\u597d", {"is", " ", "\u4f60\u597d"}},
    {"deepseek-coder", "x;; 24", {"x", ";;", " ", "2", "4"}},
    {"deepseek-v3", "a.b 2024", {"a", ".b", " ", "202", "4"}},
    {"deepseek-v3", "of\u4f60x", {"of", "\u4f60", "x"}},
    {"hunyuan-dense", "of\u4f60x", {"of", "\u4f60", "x"}},
    {"spark2_5", "a.\n12", {"a", ".", "\n", "1", "2"}},
    {"afmoe", "x 1234567 \u4f60", {"x", " ", "1", "234", "567", " ", "\u4f60"}},
};
INSTANTIATE_TEST_SUITE_P(All, PreTokenizers, testing::ValuesIn(kCuts),
                         [](const auto& of) { return fmt::format("Case{}", of.index); });

/// Numbers, contractions, scripts, marks, punctuation, newlines and spaces in composed form.
const char* const kText =
    "It's 1234567, we'LL see!!  \tf(x_1) = {2.50};\r\n\r\n\n    return   \u00e9t\u00e9 "
    "\u00bd\u00b2;\n"
    "\u4f60\u597d\uff0c\u4e16\u754c12\u3002 \u3053\u3093 \ud55c\uae00 \u0915\u093f \u0e2a\u0e27 "
    "camelCaseHTML <sentinel:7> // a--b... \U0001F600 \n \n x  ";

TEST(GgufByteLevel, NoNameLosesText) {
  for (const std::string_view name : pre_tokenizer_names()) {
    const Tokenizer tokenizer = load(byte_level(std::string(name)));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(kText)), kText) << name;
  }
}

/// The parts of a `tokenizer.json` that cut text, as its makers published it.
struct Published {
  const char* pre;
  const char* normalizer;
  const char* pre_tokenizer;
};

const Published kPublished[] = {
    {"falcon", "null", R"({"type": "Sequence", "pretokenizers": [
       {"type": "Punctuation", "behavior": "Contiguous"},
       {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
       {"type": "Digits", "individual_digits": false},
       {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated", "invert": false}]})"},
    {"command-r", R"({"type": "NFC"})", R"({"type": "Sequence", "pretokenizers": [
       {"type": "Digits", "individual_digits": true},
       {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]})"},
    {"olmo", R"({"type": "NFC"})",
     R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})"},
    {"bloom", "null", R"({"type": "Sequence", "pretokenizers": [
       {"type": "Split", "pattern": {"Regex": " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"},
        "behavior": "Isolated", "invert": false},
       {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})"},
    {"llama4", "null", R"({"type": "Sequence", "pretokenizers": [
       {"type": "Split", "pattern": {"Regex": "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
        "behavior": "Isolated", "invert": false},
       {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})"},
};

/// A `tokenizer.json` of the same tokens and merges.
Json hugging_face(const Json& gguf, const Published& published) {
  Json vocabulary = Json::object();
  for (const Json& token : gguf["tokenizer.ggml.tokens"]) {
    const int id = static_cast<int>(vocabulary.size());
    vocabulary[token.get<std::string>()] = id;
  }
  return {{"version", "1.0"},
          {"normalizer", Json::parse(published.normalizer)},
          {"pre_tokenizer", Json::parse(published.pre_tokenizer)},
          {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
          {"model",
           {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", gguf["tokenizer.ggml.merges"]}}}};
}

/// Every two characters that stand side by side in `text` are a token: a difference in one cut is a
/// difference in ids.
Json pairs_of(const char* pre, std::string_view text) {
  Cut cut{pre, "", {}};
  for (std::size_t i = 0; i < text.size(); ++i) cut.pieces.emplace_back(1, text[i]);
  return vocabulary_for(cut);
}

TEST(GgufByteLevel, CutsAsThePublishedTokenizerDoes) {
  const test::TemporaryFolder folder;
  for (const Published& published : kPublished) {
    const Json gguf = pairs_of(published.pre, kText);
    const std::string json = hugging_face(gguf, published).dump();
    const auto path = folder.add(fmt::format("{}.json", published.pre), json);
    EXPECT_EQ(load(gguf).encode(kText), Tokenizer::from_json_file(path).encode(kText))
        << published.pre;
  }
}

TEST(GgufByteLevel, NamesOfEncodersOnlyAreRefused) {
  EXPECT_THROW(load(byte_level("whitespace")), Error);
}

TEST(GgufByteLevel, TextIsComposedWhereTheModelsMakersDo) {
  const std::string decomposed = "e\u0301";
  for (const char* name : {"qwen2", "qwen35", "stablelm2", "command-r", "mpt", "olmo"}) {
    EXPECT_EQ(pieces(load(byte_level(name)), decomposed), Pieces{"\u00c3\u00a9"}) << name;
  }
  for (const char* name : {"llama-bpe", "gpt-2", "falcon", "deepseek-v3"}) {
    EXPECT_EQ(load(byte_level(name)).decode(load(byte_level(name)).encode(decomposed)), decomposed)
        << name;
  }
}

TEST(GgufByteLevel, ControlTokensAreSpecialAndUserDefinedOnesAreText) {
  const Tokenizer tokenizer = load(byte_level("gpt-2"));
  const auto ids = tokenizer.encode("ab<|im_end|><user>ab");
  EXPECT_EQ(ids, (std::vector<TokenId>{260, 262, 263, 260}));
  EXPECT_TRUE(tokenizer.is_special(262));
  EXPECT_FALSE(tokenizer.is_special(263));
  EXPECT_EQ(tokenizer.decode(ids), "ab<user>ab");
  EXPECT_EQ(tokenizer.end_tokens(), (std::vector<TokenId>{261, 262}));
}

/// gpt-oss says more after the thought that <|end|> closes; Phi has said all.
TEST(GgufByteLevel, TheEndOfAMessageEndsAnAnswerUnlessAnotherTokenReturns) {
  Json metadata = byte_level("gpt-2");
  metadata["tokenizer.ggml.tokens"][263] = "<|return|>";
  metadata["tokenizer.ggml.eos_token_id"] = 263;
  EXPECT_EQ(load(metadata).end_tokens(), (std::vector<TokenId>{263, 262, 261}));  // a text
  metadata["tokenizer.ggml.token_type"][263] = 3;
  EXPECT_EQ(load(metadata).end_tokens(), (std::vector<TokenId>{263, 262}));
  metadata["tokenizer.ggml.eot_token_id"] = 261;
  EXPECT_EQ(load(metadata).end_tokens(), (std::vector<TokenId>{263, 262}));
  metadata["tokenizer.ggml.tokens"][263] = "<|flush|>";  // Solar Open's
  EXPECT_EQ(load(metadata).end_tokens(), (std::vector<TokenId>{263, 262}));
}

/// Llama 4's, of which files name the first alone.
TEST(GgufByteLevel, ACallOfAToolEndsAnAnswer) {
  Json metadata = byte_level("llama4");
  metadata["tokenizer.ggml.tokens"][261] = "<|eot|>";
  metadata["tokenizer.ggml.tokens"][262] = "<|eom|>";
  EXPECT_EQ(load(metadata).end_tokens(), (std::vector<TokenId>{261, 262}));
}

TEST(GgufByteLevel, EveryByteHasItsToken) {
  const Tokenizer tokenizer = load(byte_level("gpt-2"));
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(tokenizer.bytes_of(byte), std::string(1, static_cast<char>(byte))) << byte;
  }
}

TEST(GgufByteLevel, Llama3TextBeginsWithTheStartTokenUnlessTheFileSaysNo) {
  EXPECT_TRUE(load(byte_level("llama-bpe")).wants_start_token());
  EXPECT_FALSE(load(byte_level("qwen2")).wants_start_token());
  Json metadata = byte_level("llama-bpe");
  metadata["tokenizer.ggml.add_bos_token"] = false;
  EXPECT_FALSE(load(metadata).wants_start_token());
}

TEST(GgufSentencePiece, MergesByScoreWithAFirstSpaceAfterEverySpecialToken) {
  const Tokenizer tokenizer = load(sentencepiece());
  EXPECT_EQ(pieces(tokenizer, "ab"), (Pieces{"▁a", "b"}));
  EXPECT_EQ(pieces(tokenizer, "ab</s>b"), (Pieces{"▁a", "b", "</s>", "▁", "b"}));
  EXPECT_EQ(pieces(tokenizer, "a<user>a"), (Pieces{"▁a", "<user>", "▁a"}));
  EXPECT_EQ(pieces(tokenizer, "é"), (Pieces{"▁", "<0xC3>", "<0xA9>"}));
  EXPECT_EQ(tokenizer.chat_template(), "{{ 'x' }}");
  EXPECT_TRUE(tokenizer.wants_start_token());
}

TEST(GgufSentencePiece, AnEmptyTemplateIsNone) {
  Json metadata = sentencepiece();
  metadata["tokenizer.chat_template"] = "";
  EXPECT_EQ(load(metadata).chat_template(), std::nullopt);
}

TEST(GgufSentencePiece, ChatsWithToolsMayHaveATemplateOfTheirOwn) {
  Json metadata = sentencepiece();
  EXPECT_EQ(load(metadata).tool_template(), std::nullopt);
  metadata["tokenizer.chat_template.tool_use"] = "two";
  EXPECT_EQ(load(metadata).tool_template(), "two");
  EXPECT_EQ(load(metadata).chat_template(), "{{ 'x' }}");
}

TEST(GgufSentencePiece, NoFirstSpaceWhereTheFileSaysSo) {
  Json metadata = sentencepiece();
  metadata["tokenizer.ggml.add_space_prefix"] = false;
  const Tokenizer tokenizer = load(metadata);
  EXPECT_EQ(pieces(tokenizer, "ab"), Pieces{"ab"});
  EXPECT_FALSE(tokenizer.drops_first_space());
}

TEST(GgufSentencePiece, OllamasFilesOfGemma3AreReadAsThoseOfOthers) {
  Json metadata = sentencepiece();
  metadata["tokenizer.ggml.tokens"].back() = "<image_soft_token>";
  EXPECT_FALSE(load(metadata).is_special(264));
  metadata["general.architecture"] = "gemma3";
  EXPECT_TRUE(load(metadata).is_special(264));
  EXPECT_EQ(pieces(load(metadata), "ab</s>b"), (Pieces{"ab", "</s>", "b"}));
  metadata["tokenizer.ggml.add_space_prefix"] = true;
  EXPECT_EQ(pieces(load(metadata), "ab"), (Pieces{"▁a", "b"}));
}

struct Damage {
  const char* name;
  std::function<void(Json&)> apply;
  const char* named;  // what the message must name
};

void expect_error(Json metadata, const Damage& damage) {
  damage.apply(metadata);
  try {
    load(metadata);
    ADD_FAILURE() << damage.name << ": no error";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("model.gguf"), std::string::npos) << message;
    EXPECT_NE(message.find(damage.named), std::string::npos) << damage.name << ": " << message;
  }
}

TEST(GgufTokenizer, DamagedFieldsAreErrorsThatNameThem) {
  const Damage both[] = {
      {"no model", [](Json& m) { m.erase("tokenizer.ggml.model"); }, "tokenizer.ggml.model"},
      {"other model", [](Json& m) { m["tokenizer.ggml.model"] = "rwkv"; }, "rwkv"},
      {"model is a number", [](Json& m) { m["tokenizer.ggml.model"] = 1; }, "tokenizer.ggml.model"},
      {"no tokens", [](Json& m) { m.erase("tokenizer.ggml.tokens"); }, "tokenizer.ggml.tokens"},
      {"empty tokens", [](Json& m) { m["tokenizer.ggml.tokens"] = Json::array(); }, "tokens"},
      {"tokens are no list", [](Json& m) { m["tokenizer.ggml.tokens"] = 3; }, "tokens"},
      {"token is a number", [](Json& m) { m["tokenizer.ggml.tokens"][7] = 3; }, "tokens[7]"},
      {"token is no UTF-8", [](Json& m) { m["tokenizer.ggml.tokens"][7] = "\xFF"; }, "tokens[7]"},
      {"token twice",
       [](Json& m) { m["tokenizer.ggml.tokens"][7] = m["tokenizer.ggml.tokens"][5]; }, "tokens[7]"},
      {"types too few", [](Json& m) { m["tokenizer.ggml.token_type"].erase(0); }, "token_type"},
      {"type 0", [](Json& m) { m["tokenizer.ggml.token_type"][9] = 0; }, "token_type[9]"},
      {"type 7", [](Json& m) { m["tokenizer.ggml.token_type"][9] = 7; }, "token_type[9]"},
      {"type is a text", [](Json& m) { m["tokenizer.ggml.token_type"][9] = "x"; }, "token_type[9]"},
      {"start beyond", [](Json& m) { m["tokenizer.ggml.bos_token_id"] = 99999; }, "bos_token_id"},
      {"end negative", [](Json& m) { m["tokenizer.ggml.eos_token_id"] = -1; }, "eos_token_id"},
      {"end is huge", [](Json& m) { m["tokenizer.ggml.eot_token_id"] = 18446744073709551615U; },
       "eot_token_id"},
      {"flag is a number", [](Json& m) { m["tokenizer.ggml.add_bos_token"] = 1; }, "add_bos_token"},
      {"template is a list", [](Json& m) { m["tokenizer.chat_template"] = Json::array(); },
       "chat_template"},
  };
  for (const Damage& damage : both) {
    expect_error(byte_level("gpt-2"), damage);
    expect_error(sentencepiece(), damage);
  }
  const Damage of_byte_level[] = {
      {"unknown cutting", [](Json& m) { m["tokenizer.ggml.pre"] = "whitespace"; }, "whitespace"},
      {"unknown cutting lists the known", [](Json& m) { m["tokenizer.ggml.pre"] = "x"; }, "smollm"},
      {"no merges", [](Json& m) { m.erase("tokenizer.ggml.merges"); }, "tokenizer.ggml.merges"},
      {"merge of one", [](Json& m) { m["tokenizer.ggml.merges"][2] = "11"; }, "merges[2]"},
      {"merge of nothing", [](Json& m) { m["tokenizer.ggml.merges"][2] = " "; }, "merges[2]"},
      {"merge of unknown", [](Json& m) { m["tokenizer.ggml.merges"][2] = "zz 1"; }, "zz"},
      {"merge to unknown", [](Json& m) { m["tokenizer.ggml.merges"][2] = "1 a"; }, "1a"},
  };
  for (const Damage& damage : of_byte_level) expect_error(byte_level("gpt-2"), damage);
  const Damage of_sentencepiece[] = {
      {"no scores", [](Json& m) { m.erase("tokenizer.ggml.scores"); }, "tokenizer.ggml.scores"},
      {"scores too few", [](Json& m) { m["tokenizer.ggml.scores"].erase(0); }, "scores"},
      {"score is a text", [](Json& m) { m["tokenizer.ggml.scores"][4] = "x"; }, "scores[4]"},
      {"score is no number", [](Json& m) { m["tokenizer.ggml.scores"][260] = NAN; },
       "score of piece 260"},
      {"score is infinite", [](Json& m) { m["tokenizer.ggml.scores"][260] = INFINITY; }, "score"},
      {"token is empty", [](Json& m) { m["tokenizer.ggml.tokens"][260] = ""; }, "piece 260"},
      {"token has a zero byte",
       [](Json& m) { m["tokenizer.ggml.tokens"][260] = std::string("\0a", 2); }, "piece 260"},
      {"no unknown token", [](Json& m) { m["tokenizer.ggml.token_type"][0] = 1; }, "unk"},
      {"two unknown tokens", [](Json& m) { m["tokenizer.ggml.token_type"][1] = 2; }, "unk"},
      {"byte missing", [](Json& m) { m["tokenizer.ggml.token_type"][5] = 1; }, "byte"},
      {"byte misspelled", [](Json& m) { m["tokenizer.ggml.tokens"][5] = "<0xZZ>"; }, "<0xZZ>"},
      {"space flag is a text", [](Json& m) { m["tokenizer.ggml.add_space_prefix"] = "no"; },
       "add_space_prefix"},
  };
  for (const Damage& damage : of_sentencepiece) expect_error(sentencepiece(), damage);
}

}  // namespace
}  // namespace talon::gguf_tokenizer_test
