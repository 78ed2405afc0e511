#include <fmt/ranges.h>

#include <algorithm>
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

/// How text is cut where a file does not say it, as none of before May 2024 does: as all models of
/// its architecture do, or as Llama 3.
std::string usual_cutting(const GgufFields& fields, const Tokens& tokens) {
  constexpr std::string_view kStartOfLlama3 = "<|begin_of_text|>";
  const std::string architecture = fields.text("general.architecture").value_or("");
  if (architecture == "qwen2" || architecture == "qwen2moe") return "qwen2";
  if (architecture == "starcoder2") return "starcoder";
  const auto start = std::ranges::find(tokens.texts, kStartOfLlama3);
  return start == tokens.texts.end() ? "default" : "llama-bpe";
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
  return token != "<s>" && token != "<unk>" && token != "<|endoftext|>";
}

/// SentencePiece needs an unknown token. Converters call it a mark where the settings beside the
/// model list it: the token to be called otherwise, if there is such a one.
std::optional<std::size_t> unknown_mark(const GgufFields& fields, const Tokens& tokens) {
  constexpr std::string_view kUsualText = "<unk>";
  if (std::ranges::find(tokens.types, int{kUnknown}) != tokens.types.end()) return std::nullopt;
  const auto usual = std::ranges::find(tokens.texts, kUsualText);
  auto id = static_cast<std::size_t>(usual - tokens.texts.begin());
  if (usual == tokens.texts.end()) {
    const auto stated = fields.token("tokenizer.ggml.unknown_token_id", tokens.size());
    if (!stated) return std::nullopt;
    id = static_cast<std::size_t>(*stated);
  }
  const bool is_mark = tokens.types[id] == kControl || tokens.types[id] == kUserDefined;
  return is_mark ? std::optional(id) : std::nullopt;
}

/// Whether all pieces score alike, as converters write them that find no tokenizer.model.
bool are_alike(const std::vector<float>& scores, const Tokens& tokens) {
  std::optional<float> first;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (tokens.types[id] != kNormal) continue;
    if (!first) first = scores[id];
    if (scores[id] != *first) return false;
  }
  return true;
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
  const auto unknown = unknown_mark(fields, tokens);
  const bool alike = are_alike(scores, tokens);  // then in the order in which they were learned
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    const bool is_mark = is_gemma3 && tokens.texts[id] == "<image_soft_token>";
    const int type = id == unknown ? int{kUnknown} : is_mark ? int{kControl} : tokens.types[id];
    model.pieces.push_back({std::string(tokens.texts[id]),
                            alike ? -static_cast<float>(id) : scores[id],
                            static_cast<SentencePieceModel::Type>(type),
                            takes_spaces(fields, tokens.texts[id], tokens.types[id])});
    model.byte_fallback |= type == kByte;
  }
  TokenizerParts parts = load_sentencepiece(model, doing);
  parts.end_tokens.clear();
  parts.wants_start_token = true;
  return parts;
}

/// always_starts: whatever the file says. Where it names no start token, that is SentencePiece's
/// usual one.
void read_start_and_ends(const GgufFields& fields, int tokens, bool always_starts,
                         TokenizerParts& parts) {
  const auto said = fields.boolean("tokenizer.ggml.add_bos_token");
  const bool wanted = always_starts || said.value_or(parts.wants_start_token);
  const auto stated = fields.token("tokenizer.ggml.bos_token_id", tokens);
  if (stated || !wanted) parts.start_token = stated;
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
      *model == "gpt2" ? fields.text("tokenizer.ggml.pre").value_or(usual_cutting(fields, tokens))
                       : *model;
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
