#include "text/gguf/character_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "core/error.h"
#include "text/gguf/token_list.h"
#include "text/hugging_face/bridge_encoder.h"

namespace talon {
namespace {

constexpr CharacterBpe kCharacterBpes[] = {
    {"gemma4", true, true}, {"granite-embed-multi-311m", true}, {"sarvam-moe"}};

constexpr std::string_view kSpelledSpace = "\u2581";
constexpr std::string_view kShownMarks[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                            "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                            "<|\"|>"};

/// See talon_bpe in bridge.h.
constexpr std::string_view kPipeline = R"json({
  "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
  "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\n+"}, "behavior": "Isolated",
                    "invert": false},
  "byte_fallback": true,
  "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}]}
})json";

using KnownTexts = std::unordered_set<std::string_view>;

/// So that no text loses a character.
void check_bytes(const KnownTexts& known, std::string_view doing) {
  for (int byte = 0; byte <= 0xF4; ++byte) {
    const char character = static_cast<char>(byte);
    const bool is_whole = byte < 0x80 && known.contains({&character, 1});
    const bool is_space = byte == ' ' && known.contains(kSpelledSpace);
    const bool is_in_no_text = byte == 0xC0 || byte == 0xC1;
    const std::string token = fmt::format("<0x{:02X}>", byte);
    if (is_whole || is_space || is_in_no_text || known.contains(token)) continue;
    fail("{}: tokenizer.ggml.tokens: expected a token for each byte, found no {}", doing, token);
  }
}

/// What merges give.
std::unordered_set<std::string> merged_texts(std::span<const std::string_view> merges) {
  std::unordered_set<std::string> merged;
  for (const std::string_view merge : merges) {
    const std::size_t space = std::min(merge.find(' '), merge.size() - 1);
    merged.insert(std::string(merge.substr(0, space)).append(merge.substr(space + 1)));
  }
  return merged;
}

bool is_one_character(std::string_view text) {
  const auto is_first = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; };
  return std::ranges::count_if(text, is_first) == 1;
}

}  // namespace

std::optional<CharacterBpe> find_character_bpe(std::string_view name) {
  const auto found = std::ranges::find(kCharacterBpes, name, &CharacterBpe::name);
  return found == std::end(kCharacterBpes) ? std::nullopt : std::optional(*found);
}

std::vector<std::string_view> character_bpe_names() {
  std::vector<std::string_view> names;
  for (const CharacterBpe& known : kCharacterBpes) names.push_back(known.name);
  return names;
}

bool is_shown_mark_of_gemma(std::string_view text) {
  return std::ranges::find(kShownMarks, text) != std::end(kShownMarks);
}

TokenizerParts load_character_bpe(const CharacterBpe& kind, const GgufFields& fields,
                                  std::span<const std::string_view> texts,
                                  std::span<const int> types, std::string_view doing) {
  check_bytes({texts.begin(), texts.end()}, doing);
  TokenLists lists;
  lists.tokens.assign(texts.begin(), texts.end());
  lists.merges = fields.texts("tokenizer.ggml.merges");
  lists.pipeline = kPipeline;
  const auto merged =
      kind.hides_additions ? merged_texts(lists.merges) : std::unordered_set<std::string>();
  // Runs of line breaks, tags of HTML and the like. Those that spell spaces are in no text.
  const auto is_addition = [&](std::string_view text) {
    return kind.hides_additions && !is_one_character(text) && !merged.contains(std::string(text)) &&
           text.find(kSpelledSpace) == std::string_view::npos;
  };
  using Kind = TokenLists::Kind;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const bool is_shown = types[id] == kUserDefined;
    const bool is_mark = kind.hides_additions && is_shown && is_shown_mark_of_gemma(texts[id]);
    const bool special = types[id] == kControl || types[id] == kUnknown || is_mark;
    const bool added = is_shown || (types[id] == kNormal && is_addition(texts[id]));
    lists.kinds.push_back(special ? Kind::added_special : added ? Kind::added : Kind::ordinary);
  }
  TokenizerParts parts = load_bpe(lists, doing);
  parts.wants_start_token = kind.always_starts;
  return parts;
}

}  // namespace talon
