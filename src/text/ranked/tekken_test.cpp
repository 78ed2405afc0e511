#include "text/ranked/tekken.h"

#include <gtest/gtest.h>

#include <functional>

#include "io/test_files.h"
#include "text/gguf/write_tokenizer.h"
#include "text/prompt.h"
#include "text/ranked/tekken_template.h"
#include "text/ranked/test_ranks.h"

namespace talon::tekken_test {
namespace {

using Ids = std::vector<TokenId>;

constexpr int kSpecial = 22;  // two more than are named
constexpr int kAll = kSpecial + 267;

/// The ids of single bytes.
TokenId id_of(int byte) { return kSpecial + byte; }

constexpr const char* kPattern =
    R"x([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)x";

/// Ids 278 to 288, and one token more than the model has.
Json tekken_json() {
  Json vocabulary = Json::array();
  for (const std::string& token :
       test::ranked_tokens({"bc", "ab", "abc", "xyz", "qrs", "rs", "\u00e9", "\xF0\x9F", "aa",
                            "aaa", " ab", "ee"})) {
    vocabulary.push_back({{"rank", vocabulary.size()},
                          {"token_bytes", test::base64_of(token)},
                          {"token_str", nullptr}});
  }
  Json json = Json::object();
  json["config"] = {{"pattern", kPattern},
                    {"num_vocab_tokens", vocabulary.size()},
                    {"default_vocab_size", kAll},
                    {"default_num_special_tokens", kSpecial},
                    {"version", "v7"}};
  json["vocab"] = std::move(vocabulary);
  return json;
}

/// As `special_tokens` lists them.
Json special_list(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) {
    list.push_back({{"rank", list.size()}, {"token_str", text}, {"is_control", true}});
  }
  return list;
}

class Tekkens : public testing::Test {
 protected:
  Tokenizer load(const Json& json) const {
    folder_.add("tekken.json", json.dump());
    return test::load_folder(folder_.path());
  }
  std::string refusal(const std::function<void(Json&)>& change) const {
    Json json = tekken_json();
    change(json);
    return test::message_of([&] { load(json); });
  }

  test::TemporaryFolder folder_;
};

TEST_F(Tekkens, TextHasTheIdsOfItsRanksBehindThoseOfSpecialTokens) {
  const Tokenizer tokenizer = load(tekken_json());
  EXPECT_EQ(tokenizer.kind(), "byte-level BPE");
  EXPECT_EQ(tokenizer.vocabulary_size(), kAll);
  const auto ids = [&](const char* text) { return tokenizer.encode(text); };
  EXPECT_EQ(ids("abc"), Ids{280});
  EXPECT_EQ(ids("xabc"), (Ids{id_of('x'), 280}));  // b and c first
  EXPECT_EQ(ids("abd"), (Ids{279, id_of('d')}));
  EXPECT_EQ(ids("xyz"), Ids{281});  // which no merge gives
  EXPECT_EQ(ids("axyz"), (Ids{id_of('a'), id_of('x'), id_of('y'), id_of('z')}));
  EXPECT_EQ(ids("aqrs"), (Ids{id_of('a'), 282}));
  EXPECT_EQ(ids("baaaa"), (Ids{id_of('b'), 286, 286}));
  EXPECT_EQ(ids("cd ab"), (Ids{id_of('c'), id_of('d'), 288}));
  EXPECT_EQ(ids("ee"), (Ids{id_of('e'), id_of('e')}));  // the model has no row for it
}

TEST_F(Tekkens, CharactersMayBeTokensPartsOrBytes) {
  const Tokenizer tokenizer = load(tekken_json());
  EXPECT_EQ(tokenizer.encode("\u00e9a"), (Ids{284, id_of('a')}));
  EXPECT_EQ(tokenizer.encode("\u00e8"), (Ids{id_of(0xC3), id_of(0xA8)}));
  EXPECT_EQ(tokenizer.encode("\U0001F642"), (Ids{285, id_of(0x99), id_of(0x82)}));
  EXPECT_EQ(tokenizer.bytes_of(285), "\xF0\x9F");
  EXPECT_EQ(tokenizer.piece_of(288), "\u0120ab");
  const std::string text = "Hi, \n\n \u00e9\U0001F642 12 ABab\t";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST_F(Tekkens, SpecialTokensComeFirstAndAreFilledUp) {
  const Tokenizer tokenizer = load(tekken_json());
  EXPECT_EQ(tokenizer.encode("[INST]ab[/INST]"), (Ids{3, 279, 4}));
  EXPECT_EQ(tokenizer.encode("[INST]", {.parse_special = false}),
            (Ids{id_of('['), id_of('I'), id_of('N'), id_of('S'), id_of('T'), id_of(']')}));
  EXPECT_EQ(tokenizer.encode("abc", {.add_start = true}), (Ids{1, 280}));
  EXPECT_EQ(tokenizer.encode("<s>abc", {.add_start = true}), (Ids{1, 280}));
  EXPECT_EQ(tokenizer.start_token(), 1);
  EXPECT_EQ(tokenizer.end_tokens(), Ids{2});
  EXPECT_EQ(tokenizer.piece_of(21), "<SPECIAL_21>");
  EXPECT_TRUE(tokenizer.is_special(21));
  EXPECT_FALSE(tokenizer.is_special(22));
}

TEST_F(Tekkens, AFileMayListItsSpecialTokens) {
  Json json = tekken_json();
  json["special_tokens"] = special_list({"<unk>", "<s>", "</s>", "[THINK]"});
  const Tokenizer tokenizer = load(json);
  EXPECT_EQ(tokenizer.encode("[THINK]ab"), (Ids{3, 279}));
  EXPECT_EQ(tokenizer.piece_of(4), "<SPECIAL_4>");
  EXPECT_EQ(tokenizer.chat_template(), std::nullopt);  // nothing to write one with
}

TEST_F(Tekkens, ConfigurationAndTokenizerJsonComeBeforeIt) {
  folder_.add("generation_config.json", R"({"eos_token_id": [4, 2]})");
  folder_.add("tokenizer_config.json", R"({"add_bos_token": false})");
  folder_.add("chat_template.jinja", "own file");
  const Tokenizer tokenizer = load(tekken_json());
  EXPECT_EQ(tokenizer.end_tokens(), (Ids{4, 2}));
  EXPECT_FALSE(tokenizer.wants_start_token());
  EXPECT_EQ(tokenizer.chat_template(), "own file");
  std::filesystem::copy(TALON_TEST_DATA "/text/byte_level/tokenizer.json", folder_.path());
  EXPECT_NE(test::load_folder(folder_.path()).vocabulary_size(), kAll);
}

TEST_F(Tekkens, WhatIsWrongIsNamed) {
  const auto expect = [&](const char* named, const std::function<void(Json&)>& change) {
    const std::string message = refusal(change);
    EXPECT_NE(message.find("tekken.json"), std::string::npos) << message;
    EXPECT_NE(message.find(named), std::string::npos) << message;
  };
  expect("config: expected an object", [](Json& json) { json.erase("config"); });
  expect("config.pattern: expected", [](Json& json) { json["config"].erase("pattern"); });
  expect("config.version: expected", [](Json& json) { json["config"]["version"] = 7; });
  for (const Json& size : {Json("x"), Json(-1), Json(1 << 30), Json(1.5), Json()}) {
    expect("config.default_vocab_size: expected",
           [&](Json& json) { json["config"]["default_vocab_size"] = size; });
  }
  expect("config.default_num_special_tokens: expected at most 10",
         [](Json& json) { json["config"]["default_vocab_size"] = 10; });
  expect("vocab: expected at least 378 tokens",
         [](Json& json) { json["config"]["default_vocab_size"] = 400; });
  expect("vocab: expected a list", [](Json& json) { json["vocab"] = "x"; });
  expect("vocab[5].rank: expected 5, found \"6\"",
         [](Json& json) { json["vocab"][5]["rank"] = 6; });
  expect("vocab[5].rank: expected 5", [](Json& json) { json["vocab"][5] = 5; });
  for (const char* bytes : {"YQ", "", "Y?=="}) {
    expect("vocab[256].token_bytes: expected a token in base64",
           [&](Json& json) { json["vocab"][256]["token_bytes"] = bytes; });
  }
  expect("rank 257: expected a new token",
         [](Json& json) { json["vocab"][257]["token_bytes"] = test::base64_of("bc"); });
  expect("none for 0x07",
         [](Json& json) { json["vocab"][7]["token_bytes"] = test::base64_of("zz"); });
}

TEST_F(Tekkens, WhatIsWrongWithSpecialTokensIsNamed) {
  const auto with = [](const std::vector<std::string>& texts,
                       const std::function<void(Json&)>& change) {
    return [list = special_list(texts), change](Json& json) {
      json["special_tokens"] = list;
      change(json);
    };
  };
  const auto none = [](Json&) {};
  const auto expect = [&](const char* named, const std::function<void(Json&)>& change) {
    const std::string message = refusal(change);
    EXPECT_NE(message.find(named), std::string::npos) << message;
  };
  expect("special_tokens: expected a list", [](Json& json) { json["config"]["version"] = "v11"; });
  expect("special_tokens[1].rank: expected 1",
         with({"<unk>", "<s>"}, [](Json& json) { json["special_tokens"][1]["rank"] = 2; }));
  expect("special_tokens[1].token_str: expected a text",
         with({"<unk>", "<s>"}, [](Json& json) { json["special_tokens"][1].erase("token_str"); }));
  expect("added token 1: expected a text that no other token has", with({"<s>", "<s>"}, none));
  expect("added token 1: expected a text that no other token has", with({"<s>", "ab"}, none));
  expect("special_tokens: expected at most 19", [](Json& json) {
    json["config"]["default_num_special_tokens"] = 19;
    json["config"]["default_vocab_size"] = kAll - 3;
  });
}

TEST_F(Tekkens, BecomesTheTokenizerOfAGguf) {
  const Tokenizer tokenizer = load(tekken_json());
  Checkpoint checkpoint;
  checkpoint.format = CheckpointFormat::hugging_face;
  checkpoint.path = folder_.path();
  checkpoint.metadata = Json::object();
  Json keys = Json::object();
  for (const auto& [key, value] : write_gguf_tokenizer(checkpoint, kAll)) keys[key] = value;
  EXPECT_EQ(keys["tokenizer.ggml.pre"], "tekken");
  const Tokenizer written = Tokenizer::from_gguf(keys, "written");
  for (const char* text : {"xabc", "axyz xyz", "baaaa", "[INST]\u00e9\U0001F642[/INST]"}) {
    EXPECT_EQ(written.encode(text, {.add_start = true}),
              tokenizer.encode(text, {.add_start = true}));
  }
  EXPECT_EQ(written.chat_template(), tokenizer.chat_template());
}

TEST_F(Tekkens, AChatIsWrittenAsItsVersionHasIt) {
  const Tokenizer tokenizer = load(tekken_json());
  const std::vector<ChatMessage> messages = {
      {"system", "ab"}, {"user", "bc"}, {"assistant", "abc"}, {"user", "[INST]"}};
  const ChatPrompt prompt = encode_chat(tokenizer, chat_template_of(tokenizer), messages);
  EXPECT_EQ(prompt.chat.text,
            "<s>[SYSTEM_PROMPT]ab[/SYSTEM_PROMPT][INST]bc[/INST]abc</s>[INST][INST][/INST]");
  EXPECT_EQ(prompt.tokens, (Ids{1, 17, 279, 18, 3, 278, 4, 280, 2, 3, id_of('['), id_of('I'),
                                id_of('N'), id_of('S'), id_of('T'), id_of(']'), 4}));
}

Vocabulary vocabulary_of(const std::vector<std::string>& marks) {
  Vocabulary vocabulary;
  for (const std::string& mark : marks) vocabulary.add(mark, mark, Vocabulary::Kind::special);
  return vocabulary;
}

const std::vector<std::string> kMarks = {
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CONTENT]",
    "[ARGS]",
    "[CALL_ID]",
};

std::string rendered(const std::string& version, const std::vector<std::string>& marks,
                     const std::vector<ChatMessage>& messages, const char* tools = "null") {
  const auto source = tekken_chat_template(version, vocabulary_of(marks));
  if (!source) return "none";
  ChatRenderOptions options;
  options.variables["tools"] = OrderedJson::parse(tools);
  return ChatTemplate(*source, "<s>", "</s>").render(messages, options);
}

TEST(TekkenTemplate, BeforeV7TheSystemSpeaksWithTheLastUser) {
  const std::vector<ChatMessage> messages = {
      {"system", "s"}, {"user", "a"}, {"assistant", "b"}, {"user", "c"}};
  EXPECT_EQ(rendered("v3", {"<s>", "</s>", "[INST]", "[/INST]"}, messages),
            "<s>[INST]a[/INST]b</s>[INST]s\n\nc[/INST]");
  EXPECT_EQ(rendered("v7", kMarks, messages),
            "<s>[SYSTEM_PROMPT]s[/SYSTEM_PROMPT][INST]a[/INST]b</s>[INST]c[/INST]");
}

TEST(TekkenTemplate, CallsAndResultsAreThoseOfTheVersion) {
  const std::vector<ChatMessage> messages = {
      {"user", "a"},
      {"assistant", "",
       OrderedJson::parse(R"({"tool_calls": [{"id": "123456789", "type": "function",
                              "function": {"name": "get", "arguments": {"x": 1}}}]})")},
      {"tool", "5", OrderedJson::parse(R"({"tool_call_id": "123456789"})")},
      {"assistant", "b"},
      {"user", "c"}};
  const auto chat = [&](const char* version) {
    return rendered(version, kMarks, messages, R"([{"type": "function"}])");
  };
  const std::string tools = R"([AVAILABLE_TOOLS][{"type": "function"}][/AVAILABLE_TOOLS])";
  const std::string result = "</s>[TOOL_RESULTS]123456789[TOOL_CONTENT]5[/TOOL_RESULTS]";
  const std::string rest = "b</s>" + tools + "[INST]c[/INST]";
  EXPECT_EQ(chat("v7"), R"(<s>[INST]a[/INST][TOOL_CALLS][{"name": "get", "arguments": {"x": 1}, )"
                        R"("id": "123456789"}])" +
                            result + rest);
  EXPECT_EQ(chat("v11"),
            R"(<s>[INST]a[/INST][TOOL_CALLS]get[CALL_ID]123456789[ARGS]{"x": 1})" + result + rest);
  EXPECT_EQ(chat("v13"), "<s>" + tools +
                             R"([INST]a[/INST][TOOL_CALLS]get[ARGS]{"x": 1}</s>)"
                             "[TOOL_RESULTS]5[/TOOL_RESULTS]b</s>[INST]c[/INST]");
}

TEST(TekkenTemplate, ThoughtsStandBeforeAnAnswerWhereTheyHaveMarks) {
  std::vector<std::string> marks = kMarks;
  const std::vector<ChatMessage> messages = {
      {"user", "a"}, {"assistant", "b", OrderedJson::parse(R"({"reasoning_content": "hm"})")}};
  EXPECT_EQ(rendered("v13", marks, messages), "<s>[INST]a[/INST]b</s>");
  marks.insert(marks.end(), {"[THINK]", "[/THINK]"});
  EXPECT_EQ(rendered("v13", marks, messages), "<s>[INST]a[/INST][THINK]hm[/THINK]b</s>");
}

TEST(TekkenTemplate, ThereIsNoneForOtherVersionsAndWithoutItsMarks) {
  const std::vector<ChatMessage> messages = {{"user", "a"}};
  EXPECT_EQ(rendered("v2", kMarks, messages), "none");
  EXPECT_EQ(rendered("v99", kMarks, messages), "none");
  EXPECT_NE(rendered("v11", kMarks, messages), "none");
  for (const std::string& mark : kMarks) {
    std::vector<std::string> others = kMarks;
    std::erase(others, mark);
    EXPECT_EQ(rendered("v11", others, messages), "none") << mark;
  }
  EXPECT_THROW(rendered("v7", kMarks, {{"narrator", "a"}}), Error);
}

}  // namespace
}  // namespace talon::tekken_test
