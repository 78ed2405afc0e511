#include <fmt/ranges.h>

#include <unordered_map>

#include "core/error.h"
#include "io/quote.h"
#include "text/gguf/character_bpe.h"
#include "text/gguf/gguf_fields.h"
#include "text/gguf/pre_tokenizer.h"
#include "text/gguf/token_list.h"
#include "text/hugging_face/bridge_encoder.h"
#include "text/loaders.h"
#include "text/sentencepiece/sentencepiece_model.h"

// The tokenizer's keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer
namespace talon {
namespace {

/// The lists that both kinds have, of equal length.
struct Tokens {
  std::vector<std::string_view> texts;
  std::vector<int> types;

  int size() const { return static_cast<int>(texts.size()); }
};

void check_distinct(const std::vector<std::string_view>& texts, std::string_view doing) {
  std::unordered_map<std::string_view, std::size_t> first;
  first.reserve(texts.size());
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const auto [where, is_new] = first.emplace(texts[id], id);
    if (!is_new) {
      fail("{}: tokenizer.ggml.tokens[{}]: expected a new text, found {} as in [{}]", doing, id,
           quote(texts[id]), where->second);
    }
  }
}

Tokens read_tokens(const GgufFields& fields, std::string_view doing) {
  constexpr std::size_t kMostTokens = 1 << 24;
  Tokens tokens{fields.texts("tokenizer.ggml.tokens"), {}};
  if (tokens.texts.empty() || tokens.texts.size() > kMostTokens) {
    fail("{}: tokenizer.ggml.tokens: expected 1 to {} of them, found {}", doing, kMostTokens,
         tokens.texts.size());
  }
  check_distinct(tokens.texts, doing);
  tokens.types = fields.integers("tokenizer.ggml.token_type", tokens.texts.size(), kNormal, kByte);
  if (tokens.types.empty()) tokens.types.assign(tokens.texts.size(), kNormal);
  return tokens;
}

TokenizerParts load_byte_level(const GgufFields& fields, const Tokens& tokens,
                               const std::string& name, std::string_view doing) {
  const std::optional<PreTokenizer> pre_tokenizer = find_pre_tokenizer(name);
  if (!pre_tokenizer) {
    fail("{}: tokenizer.ggml.pre: expected one of {}, {}, found {}", doing,
         fmt::join(pre_tokenizer_names(), ", "), fmt::join(character_bpe_names(), ", "),
         quote(name));
  }
  TokenLists bpe;
  bpe.tokens = tokens.texts;
  for (const int type : tokens.types) {
    const bool special = type == kControl || type == kUnknown;
    bpe.kinds.push_back(special                ? TokenLists::Kind::added_special
                        : type == kUserDefined ? TokenLists::Kind::added
                                               : TokenLists::Kind::ordinary);
  }
  bpe.merges = fields.texts("tokenizer.ggml.merges");
  bpe.pipeline = pre_tokenizer->pipeline;
  TokenizerParts parts = load_bpe(bpe, doing);
  parts.wants_start_token = pre_tokenizer->adds_start;
  return parts;
}

/// Marks of Phi 3 take the white space behind them: the files do not say so.
bool takes_spaces(const GgufFields& fields, std::string_view token, int type) {
  if (fields.text("general.architecture") != "phi3") return false;
  if (type != kControl && type != kUserDefined) return false;
  return token != "<s>" && token != "<|endoftext|>";
}

TokenizerParts load_sentencepiece_style(const GgufFields& fields, const Tokens& tokens,
                                        std::string_view doing) {
  const auto scores = fields.numbers("tokenizer.ggml.scores", tokens.texts.size());
  if (scores.empty()) fail("{}: tokenizer.ggml.scores: expected one a token, found none", doing);
  SentencePieceModel model;
  model.algorithm = SentencePieceModel::Algorithm::bpe;
  // Of which Ollama's own files do not say this, and call the mark of pictures text.
  const bool is_gemma3 = fields.text("general.architecture") == "gemma3";
  model.add_dummy_prefix = fields.boolean("tokenizer.ggml.add_space_prefix").value_or(!is_gemma3);
  model.remove_extra_whitespaces = false;
  model.split_at_user_defined = true;
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    const bool is_mark = is_gemma3 && tokens.texts[id] == "<image_soft_token>";
    const int stored = is_mark ? int{kControl} : tokens.types[id];
    const auto type = static_cast<SentencePieceModel::Type>(stored);
    model.pieces.push_back({std::string(tokens.texts[id]), scores[id], type,
                            takes_spaces(fields, tokens.texts[id], tokens.types[id])});
    model.byte_fallback |= tokens.types[id] == kByte;
  }
  TokenizerParts parts = load_sentencepiece(model, doing);
  parts.start_token.reset();
  parts.end_tokens.clear();
  parts.wants_start_token = true;
  return parts;
}

/// always_starts: whatever the file says.
void read_start_and_ends(const GgufFields& fields, int tokens, bool always_starts,
                         TokenizerParts& parts) {
  parts.start_token = fields.token("tokenizer.ggml.bos_token_id", tokens);
  const auto said = fields.boolean("tokenizer.ggml.add_bos_token");
  const bool wanted = always_starts || said.value_or(parts.wants_start_token);
  parts.wants_start_token = wanted && parts.start_token.has_value();
  for (const std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                     "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = fields.token(key, tokens)) add_end_token(parts.end_tokens, *id);
  }
  add_known_end_tokens(parts);
}

}  // namespace

TokenizerParts load_gguf_tokenizer(const Json& metadata, std::string_view file_name) {
  const std::string doing = fmt::format("load tokenizer of {}", quote(file_name));
  const GgufFields fields(metadata, doing);
  const auto model = fields.text("tokenizer.ggml.model");
  if (!model || (*model != "gpt2" && *model != "llama" && *model != "gemma4")) {
    fail("{}: tokenizer.ggml.model: expected \"gpt2\", \"llama\" or \"gemma4\", found {}", doing,
         model ? quote(*model) : "none");
  }
  const Tokens tokens = read_tokens(fields, doing);
  const std::string cutting =
      *model == "gpt2" ? fields.text("tokenizer.ggml.pre").value_or("default") : *model;
  const auto character_bpe = find_character_bpe(cutting);
  TokenizerParts parts =
      character_bpe ? load_character_bpe(*character_bpe, fields, tokens.texts, tokens.types, doing)
      : *model == "gpt2" ? load_byte_level(fields, tokens, cutting, doing)
                         : load_sentencepiece_style(fields, tokens, doing);
  read_start_and_ends(fields, tokens.size(), character_bpe && character_bpe->always_starts, parts);
  parts.chat_template = fields.text("tokenizer.chat_template");
  if (parts.chat_template && parts.chat_template->empty()) parts.chat_template.reset();
  parts.tool_template = fields.text("tokenizer.chat_template.tool_use");
  if (parts.tool_template && parts.tool_template->empty()) parts.tool_template.reset();
  return parts;
}

}  // namespace talon
