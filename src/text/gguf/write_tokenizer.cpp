#include "text/gguf/write_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/quote.h"
#include "text/encoder.h"
#include "text/gguf/cutting.h"
#include "text/gguf/token_list.h"
#include "text/hugging_face/folder_settings.h"
#include "text/loaders.h"
#include "text/tokenizer.h"

namespace talon {
namespace {

/// Where tokenizers differ: words, contractions, runs of digits and of spaces, line breaks, marks,
/// scripts with and without spaces, composed and decomposed characters, symbols.
constexpr std::string_view kProbe =
    "Hello, World! I'm sure they'LL say it's we'd've DON'T\t1 12 123 1234 12345678 3.14 1,000,000 "
    "0x7f\n\nfor (int i = 0; i < n; ++i) {\r\n\t\treturn a[i] != b->c ? 'x' : \"y\";\n}\n\n\n  "
    "two   three    four     \n caf\u00e9 cafe\u0301 na\u00efve \u00dcber stra\u00dfe "
    "\u0130stanbul "
    "\u0391\u03b8\u03ae\u03bd\u03b1 \u041c\u043e\u0441\u043a\u0432\u0430 "
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0661\u0662\u0663 "
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 "
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 "
    "\ud55c\uad6d\uc5b4 \u2460 \u00bd \u2026 \u2014 \u201cquoted\u201d \U0001F600\U0001F468\u200d"
    "\U0001F4BB \u20ac5 http://example.org/a_b-c?d=e&f#g user@host CamelCase snake_case __init__ "
    "((())) !!! ??? ... -- == <tag/> \\n $x^2$ \u00a0end ";

Json read_tokenizer_json(const TokenizerFile& file, std::string_view doing) {
  using Kind = TokenizerFile::Kind;
  if (file.kind == Kind::tekken) return tekken_as_tokenizer_json(file.path);
  if (file.kind == Kind::tiktoken) return tiktoken_as_tokenizer_json(file.path);
  if (file.kind != Kind::json) return {};
  const MappedFile mapped(file.path);
  Json json = parse_json(mapped.text(), doing);
  mapped.check_whole();
  return json;
}

GgufTokens read_pieces(const std::filesystem::path& tokenizer_model, std::string_view doing) {
  const MappedFile mapped(tokenizer_model);
  const SentencePieceModel model = parse_sentencepiece(mapped.bytes(), doing);
  mapped.check_whole();
  return gguf_tokens_of(model, FolderSettings(tokenizer_model.parent_path()).added_pieces(), doing);
}

GgufTokens read_tokens(const TokenizerFile& file, const Json& json, std::string_view doing) {
  if (file.kind == TokenizerFile::Kind::llama2c) {
    return gguf_tokens_of(read_llama2c_pieces(file.path), {}, doing);
  }
  if (file.kind == TokenizerFile::Kind::sentencepiece) return read_pieces(file.path, doing);
  // The scores of the model itself, where it lies beside the other.
  const auto model = file.path.parent_path() / "tokenizer.model";
  const bool has_bytes = json.is_object() && json.contains("model") && json["model"].is_object() &&
                         json["model"].value("byte_fallback", false);
  if (has_bytes && std::filesystem::exists(model)) return read_pieces(model, doing);
  return gguf_tokens_of(json, doing);
}

/// A token for each row of the embedding: names of their own for those that no token has. Special
/// tokens without a row are left out.
void fill_rows(const Tokenizer& tokenizer, int rows, std::string_view doing, GgufTokens& tokens) {
  const auto count = static_cast<std::size_t>(rows);
  if (!has_rows_for_text(tokenizer, rows)) {
    fail("{}: expected at most {} tokens, as the model has rows, found {}", doing, rows,
         tokens.texts.size());
  }
  tokens.texts.resize(count);
  tokens.types.resize(count, kUnused);
  if (tokens.model == "llama") tokens.scores.resize(count);
  for (std::size_t id = 0; id < count; ++id) {
    if (tokens.texts[id].empty()) tokens.texts[id] = fmt::format("[PAD{}]", id);
  }
}

GgufMetadata keys_of(const GgufTokens& tokens) {
  GgufMetadata keys = {{"tokenizer.ggml.model", tokens.model},
                       {"tokenizer.ggml.pre", "default"},
                       {"tokenizer.ggml.tokens", tokens.texts},
                       {"tokenizer.ggml.token_type", tokens.types}};
  if (tokens.model != "llama") {
    keys.emplace_back("tokenizer.ggml.merges", tokens.merges);
    if (tokens.model == "gemma4") keys.emplace_back("tokenizer.ggml.add_space_prefix", false);
    return keys;
  }
  keys.emplace_back("tokenizer.ggml.scores", tokens.scores);
  keys.emplace_back("tokenizer.ggml.add_space_prefix", tokens.adds_space);
  const auto unknown = std::ranges::find(tokens.types, static_cast<int>(kUnknown));
  if (unknown != tokens.types.end()) {
    keys.emplace_back("tokenizer.ggml.unknown_token_id",
                      static_cast<unsigned>(unknown - tokens.types.begin()));
  }
  return keys;
}

/// Special tokens without a row are none of the model's.
std::optional<TokenId> start_of(const Tokenizer& tokenizer, int rows) {
  const auto start = tokenizer.start_token();
  return start && *start < rows ? start : std::nullopt;
}

std::vector<TokenId> ends_of(const Tokenizer& tokenizer, int rows) {
  std::vector<TokenId> ends = tokenizer.end_tokens();
  std::erase_if(ends, [&](TokenId end) { return end >= rows; });
  return ends;
}

void add_settings(const Tokenizer& tokenizer, int rows, GgufMetadata& keys) {
  const auto add = [&](std::string_view name, Json value) {
    keys.emplace_back(fmt::format("tokenizer.{}", name), std::move(value));
  };
  if (const auto start = start_of(tokenizer, rows)) {
    add("ggml.bos_token_id", static_cast<unsigned>(*start));
  }
  add("ggml.add_bos_token", tokenizer.wants_start_token());
  // The first, and those that are not known by their texts.
  std::vector<TokenId> ends = ends_of(tokenizer, rows);
  if (!ends.empty()) {
    std::stable_partition(ends.begin() + 1, ends.end(),
                          [&](TokenId id) { return !is_known_end_text(tokenizer.piece_of(id)); });
  }
  for (auto& key : gguf_end_tokens(ends)) keys.push_back(std::move(key));
  if (tokenizer.chat_template()) add("chat_template", *tokenizer.chat_template());
  if (!tokenizer.tool_template()) return;
  add("chat_templates", Json::array({"tool_use"}));
  add("chat_template.tool_use", *tokenizer.tool_template());
}

void set_key(GgufMetadata& keys, std::string_view name, Json value) {
  std::ranges::find(keys, name, &GgufMetadata::value_type::first)->second = std::move(value);
}

/// Where a text does not begin with a start token, as those of "gemma4" always do, another name
/// stands for the same kind of tokenizer.
void name_character_bpe(const Tokenizer& tokenizer, GgufMetadata& keys) {
  const bool starts = tokenizer.wants_start_token();
  if (!starts) set_key(keys, "tokenizer.ggml.model", "gpt2");
  set_key(keys, "tokenizer.ggml.pre", starts ? "gemma4" : "sarvam-moe");
}

Json object_of(const GgufMetadata& keys) {
  Json object = Json::object();
  for (const auto& [key, value] : keys) object[key] = value;
  return object;
}

/// The probe and, within it, some special tokens.
std::string probe_of(const Tokenizer& tokenizer, int rows) {
  constexpr int kMost = 32;
  std::string text(kProbe);
  int count = 0;
  for (TokenId id = 0; id < std::min(rows, tokenizer.vocabulary_size()) && count < kMost; ++id) {
    if (!tokenizer.is_special(id)) continue;
    const std::string special = tokenizer.bytes_of(id);
    text += special + " and " + special + "\n";
    ++count;
  }
  return text;
}

/// Throws Error unless the keys make a tokenizer that begins and ends texts as the first does and
/// gives the same ids.
void check_same(const Tokenizer& tokenizer, int rows, const GgufMetadata& keys,
                std::string_view architecture, std::string_view doing) {
  Json object = object_of(keys);
  object["general.architecture"] = architecture;
  const Tokenizer again = Tokenizer::from_gguf(object, "the GGUF to be");
  const std::string probe = probe_of(tokenizer, rows);
  const auto expected = tokenizer.encode(probe), found = again.encode(probe);
  if (expected != found) {
    const auto [a, b] = std::ranges::mismatch(expected, found);
    const auto at = static_cast<std::size_t>(a - expected.begin());
    fail(
        "{}: expected the same ids from the GGUF's keys, found others from token {} of a text on "
        "({} and {})",
        doing, at, quote(at < expected.size() ? tokenizer.piece_of(expected[at]) : ""),
        quote(b != found.end() ? again.piece_of(*b) : ""));
  }
  const bool starts = start_of(tokenizer, rows) == again.start_token() &&
                      tokenizer.wants_start_token() == again.wants_start_token();
  if (!starts) fail("{}: expected the start token of the GGUF's keys, found another", doing);
  const auto& kept = again.end_tokens();
  for (const TokenId end : ends_of(tokenizer, rows)) {
    if (std::ranges::find(kept, end) != kept.end()) continue;
    fail("{}: expected at most three end tokens beside those known by their texts, found also {}",
         doing, quote(tokenizer.piece_of(end)));
  }
}

/// Names the way of cutting that gives the tokenizer's ids.
void name_cutting(const Tokenizer& tokenizer, int rows, const Json& tokenizer_json,
                  std::string_view doing, GgufMetadata& keys) {
  const std::string probe = probe_of(tokenizer, rows);
  const auto expected = tokenizer.encode(probe);
  Json object = object_of(keys);
  const auto name = find_cutting(tokenizer_json, kProbe, doing, [&](std::string_view one) {
    object["tokenizer.ggml.pre"] = one;
    return Tokenizer::from_gguf(object, "the GGUF to be").encode(probe) == expected;
  });
  if (!name) {
    fail(
        "{}: expected a byte-level BPE that cuts text as one that GGUF has a name for, found "
        "another",
        doing);
  }
  set_key(keys, "tokenizer.ggml.pre", *name);
}

}  // namespace

GgufMetadata gguf_end_tokens(std::span<const TokenId> ends) {
  constexpr std::string_view kPlaces[kGgufEndTokens] = {"eos", "eot", "eom"};
  GgufMetadata keys;
  for (std::size_t i = 0; i < std::min(ends.size(), kGgufEndTokens); ++i) {
    keys.emplace_back(fmt::format("tokenizer.ggml.{}_token_id", kPlaces[i]),
                      static_cast<unsigned>(ends[i]));
  }
  return keys;
}

GgufMetadata write_gguf_tokenizer(const Checkpoint& checkpoint, int rows,
                                  std::string_view architecture) {
  const TokenizerFile file = find_tokenizer_beside(checkpoint);
  const std::string doing = fmt::format("write tokenizer {}", quote(file.path.string()));
  const Tokenizer tokenizer = Tokenizer::for_checkpoint(checkpoint);
  const Json json = read_tokenizer_json(file, doing);
  GgufTokens tokens = read_tokens(file, json, doing);
  fill_rows(tokenizer, rows, doing, tokens);
  GgufMetadata keys = keys_of(tokens);
  add_settings(tokenizer, rows, keys);
  if (tokens.model == "gpt2") name_cutting(tokenizer, rows, json, doing, keys);
  if (tokens.model == "gemma4") name_character_bpe(tokenizer, keys);
  check_same(tokenizer, rows, keys, architecture, doing);
  return keys;
}

}  // namespace talon
