#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "io/checkpoint.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/prompt.h"
#include "text/tokenizer.h"

// Texts, ids and renderings recorded from independent implementations; the READMEs in
// tests/data/golden tell which.
namespace talon::golden_test {
namespace {

struct Golden {
  const char* name;
  const char* folder;
  const char* model;
  std::set<TokenId> end_tokens;
};
void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

const Golden kSmolLM2{"smollm2", "smollm2-135m", "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", {0, 2}};
const Golden kTinyLlama{
    "tinyllama", "tinyllama-1.1b", "tinyllama/TinyLlama-1.1B-Chat.IQ2_XXS.gguf", {2}};
const Golden kStories15M{"stories15m", "stories15m", "stories15m/stories15M.bin", {1, 2}};

Json read_json(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

class GoldenText : public testing::TestWithParam<Golden> {
 protected:
  static std::filesystem::path model() {
    return std::filesystem::path(TALON_DOWNLOADS) / GetParam().model;
  }
  static std::string data(const char* name) {
    return std::string(TALON_TEST_DATA "/golden/") + GetParam().folder + "/" + name;
  }
  static Tokenizer tokenizer() { return Tokenizer::for_checkpoint(open_checkpoint(model())); }

  void SetUp() override {
    if (!std::filesystem::exists(model())) GTEST_SKIP() << model() << " is not downloaded";
  }
};

using GoldenChat = GoldenText;

std::vector<ChatMessage> messages_of(const Json& test_case) {
  std::vector<ChatMessage> messages;
  for (const Json& message : test_case.at("messages")) {
    messages.push_back({message.at("role"), message.at("content")});
  }
  return messages;
}

ChatTemplate template_of(const Tokenizer& tokenizer) {
  return {tokenizer.chat_template().value(), tokenizer.start_text(), tokenizer.end_text()};
}

/// Whether a message spells a special token, which stays ordinary text in a chat here and does not
/// in the recordings.
bool spells_special(const Tokenizer& tokenizer, const std::vector<ChatMessage>& messages) {
  for (const std::string& special : tokenizer.special_texts()) {
    for (const ChatMessage& message : messages) {
      if (message.content.find(special) != std::string::npos) return true;
    }
  }
  return false;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer, false);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

TEST_P(GoldenChat, EveryRecordedTextHasTheRecordedIds) {
  const Tokenizer tokenizer = this->tokenizer();
  int count = 0;
  for (const Json& text : read_json(data("tokenize.json"))) {
    EXPECT_EQ(tokenizer.encode(text.at("text").get<std::string>()),
              text.at("ids").get<std::vector<TokenId>>())
        << text.at("kind") << ": " << text.at("text");
    ++count;
  }
  EXPECT_EQ(count, 489);
}

TEST_P(GoldenChat, EveryRecordedConversationIsRenderedAndEncodedAsRecorded) {
  const Tokenizer tokenizer = this->tokenizer();
  const ChatTemplate chat_template = template_of(tokenizer);
  const Json golden = read_json(data("chat.json"));
  EXPECT_EQ(tokenizer.wants_start_token(), golden.at("bos_prepended").get<bool>());
  EXPECT_EQ(golden.at("cases").size(), 12U);
  int spelling = 0;
  for (const Json& test_case : golden.at("cases")) {
    const ChatRenderOptions options{.add_generation_prompt =
                                        test_case.at("add_generation_prompt").get<bool>()};
    const std::string text = chat_template.render(messages_of(test_case), options);
    EXPECT_EQ(text, test_case.at("rendered").get<std::string>()) << test_case.at("name");
    EXPECT_EQ(tokenizer.encode(text, {.add_start = true}),
              test_case.at("ids").get<std::vector<TokenId>>())
        << test_case.at("name");
    const ChatPrompt prompt =
        encode_chat(tokenizer, chat_template, messages_of(test_case), options);
    EXPECT_EQ(prompt.chat.text, text);
    if (spells_special(tokenizer, messages_of(test_case))) {
      EXPECT_NE(prompt.tokens, test_case.at("ids").get<std::vector<TokenId>>());
      ++spelling;
      continue;
    }
    EXPECT_EQ(prompt.tokens, test_case.at("ids").get<std::vector<TokenId>>())
        << test_case.at("name");
  }
  EXPECT_EQ(spelling, 1);
}

TEST_P(GoldenText, EndTokensAreTheModelsOwnAndTheWellKnownOnes) {
  const Tokenizer tokenizer = this->tokenizer();
  EXPECT_EQ(std::set<TokenId>(tokenizer.end_tokens().begin(), tokenizer.end_tokens().end()),
            GetParam().end_tokens);
}

TEST_P(GoldenText, RecordedPromptsEncodeAndRecordedAnswersDecode) {
  const Tokenizer tokenizer = this->tokenizer();
  const Json golden = read_json(data("greedy.json"));
  for (const Json& test_case : golden.at("cases")) {
    const std::string rendered = test_case.at("rendered");
    if (test_case.contains("messages")) {
      EXPECT_EQ(template_of(tokenizer).render(messages_of(test_case)), rendered);
    }
    auto prompt = test_case.at("prompt_ids").get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer.encode(rendered, {.add_start = true}), prompt);
    const auto answer = test_case.at("greedy").at("ids").get<std::vector<TokenId>>();
    const std::string text = test_case.at("greedy").at("text");
    EXPECT_EQ(streamed(tokenizer, answer), text);
    const std::string before = tokenizer.decode(prompt, false);
    prompt.insert(prompt.end(), answer.begin(), answer.end());
    EXPECT_EQ(tokenizer.decode(prompt, false), before + text);
  }
}

/// `text` without the bytes that no token stands for: a byte-level vocabulary without them loses
/// them silently.
std::string known_bytes(const Tokenizer& tokenizer, const std::string& text) {
  std::set<char> known;
  for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const std::string bytes = tokenizer.bytes_of(id);
    if (bytes.size() == 1) known.insert(bytes[0]);
  }
  std::string kept;
  std::copy_if(text.begin(), text.end(), std::back_inserter(kept),
               [&](char byte) { return known.contains(byte); });
  return kept;
}

/// SentencePiece reads its own mark for a space as a space.
std::string with_spaces_for_marks(std::string text) {
  const std::string mark = "\u2581";
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;) {
    text.replace(at, mark.size(), " ");
  }
  return text;
}

TEST_P(GoldenChat, DecodingTheIdsOfATextGivesTheTextBack) {
  const Tokenizer tokenizer = this->tokenizer();
  for (const Json& entry : read_json(data("tokenize.json"))) {
    const std::string text = entry.at("text");
    const auto ids = tokenizer.encode(text, {.parse_special = false});
    EXPECT_EQ(tokenizer.decode(ids, false), tokenizer.drops_first_space()
                                                ? with_spaces_for_marks(text)
                                                : known_bytes(tokenizer, text));
  }
}

std::string model_name(const testing::TestParamInfo<Golden>& golden) { return golden.param.name; }
INSTANTIATE_TEST_SUITE_P(Models, GoldenChat, testing::Values(kSmolLM2, kTinyLlama), model_name);
INSTANTIATE_TEST_SUITE_P(Models, GoldenText, testing::Values(kSmolLM2, kTinyLlama, kStories15M),
                         model_name);

}  // namespace
}  // namespace talon::golden_test
