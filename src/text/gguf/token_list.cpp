#include "text/gguf/token_list.h"

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "io/quote.h"
#include "text/gguf/character_bpe.h"

namespace talon {
namespace {

constexpr TokenId kMostTokens = 1 << 24;

/// A member of an object, or null.
const Json& member(const Json& object, const char* name) {
  static const Json null;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : null;
}

bool is_byte(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
}

/// Whether a step of this type is among the steps of a normalizer or pre-tokenizer.
const Json* find_step(const Json& step, std::string_view type) {
  if (member(step, "type") == Json(type)) return &step;
  for (const char* list : {"pretokenizers", "normalizers"}) {
    for (const Json& inner : member(step, list)) {
      if (const Json* found = find_step(inner, type)) return found;
    }
  }
  return nullptr;
}

void put(GgufTokens& tokens, TokenId id, std::string text, int type, std::string_view doing) {
  if (id < 0 || id >= kMostTokens) {
    fail("{}: token {}: expected an id below {}, found {}", doing, quote(text), kMostTokens, id);
  }
  const auto place = static_cast<std::size_t>(id);
  if (tokens.texts.size() <= place) {
    tokens.texts.resize(place + 1);
    tokens.types.resize(place + 1, kUnused);
  }
  tokens.texts[place] = std::move(text);
  tokens.types[place] = type;
}

TokenId id_of(const Json& id, std::string_view text, std::string_view doing) {
  if (!id.is_number_integer() || id < 0 || id >= kMostTokens) {
    fail("{}: token {}: expected an id below {}, found {}", doing, quote(text), kMostTokens,
         quote(id.dump()));
  }
  return id.get<TokenId>();
}

void put_vocabulary(const Json& model, std::string_view doing, GgufTokens& tokens) {
  const Json& vocabulary = member(model, "vocab");
  if (!vocabulary.is_object()) {
    fail("{}: model.vocab: expected an object of ids, found {}", doing, vocabulary.type_name());
  }
  const bool bytes = member(model, "byte_fallback") == Json(true);
  for (const auto& [text, id] : vocabulary.items()) {
    put(tokens, id_of(id, text, doing), text, bytes && is_byte(text) ? kByte : kNormal, doing);
  }
}

/// Tokens of "gemma4" that spell spaces are found by merges: as texts of their own they would be
/// looked for as they are spelled.
int type_of_gemma(const std::string& text, bool special) {
  if (special) return is_shown_mark_of_gemma(text) ? kUserDefined : kControl;
  return text.find("\u2581") == std::string::npos ? kUserDefined : kNormal;
}

void put_added(const Json& json, std::string_view doing, GgufTokens& tokens) {
  const Json& unknown = member(member(json, "model"), "unk_token");
  for (const Json& token : member(json, "added_tokens")) {
    const Json& content = member(token, "content");
    if (!content.is_string()) fail("{}: added_tokens: expected tokens with a content", doing);
    const bool special = member(token, "special") == Json(true);
    const bool is_unknown = tokens.model == "llama" && content == unknown;
    const auto& text = content.get_ref<const std::string&>();
    const int type = tokens.model == "gemma4" ? type_of_gemma(text, special)
                     : is_unknown             ? kUnknown
                     : special                ? kControl
                                              : kUserDefined;
    put(tokens, id_of(member(token, "id"), text, doing), text, type, doing);
  }
}

/// The halves of each merge, in either of the two spellings.
std::vector<std::pair<std::string, std::string>> merges_of(const Json& model,
                                                           std::string_view doing) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Json& merge : member(model, "merges")) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges.emplace_back(merge[0], merge[1]);
      continue;
    }
    const auto* text = merge.get_ptr<const std::string*>();
    const std::size_t space = text ? text->find(' ', 1) : std::string::npos;
    if (space == std::string::npos) {
      fail("{}: model.merges[{}]: expected two parts, found {}", doing, merges.size(),
           quote(merge.dump()));
    }
    merges.emplace_back(text->substr(0, space), text->substr(space + 1));
  }
  return merges;
}

/// SentencePiece joins what gives the piece of the highest score, where this BPE joins by the order
/// of its merges: a piece scores as its first one. A piece that no merge gives is never joined.
void score_by_merges(const std::vector<std::pair<std::string, std::string>>& merges,
                     GgufTokens& tokens) {
  std::unordered_map<std::string, float> first;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    first.emplace(merges[rank].first + merges[rank].second, -static_cast<float>(rank + 1));
  }
  const float last = -static_cast<float>(merges.size() + 1);
  for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
    const auto found = first.find(tokens.texts[id]);
    const bool plain = tokens.types[id] == kNormal;
    tokens.scores.push_back(!plain ? 0.0F : found == first.end() ? last : found->second);
  }
}

bool adds_space(const Json& json) {
  if (find_step(member(json, "normalizer"), "Prepend")) return true;
  const Json* spaces = find_step(member(json, "pre_tokenizer"), "Metaspace");
  if (!spaces) return false;
  const Json& scheme = member(*spaces, "prepend_scheme");
  if (scheme.is_string()) return scheme != Json("never");
  return member(*spaces, "add_prefix_space") != Json(false);
}

/// Whether spaces become U+2581, and nothing else is done to a text.
bool only_spells_spaces(const Json& json) {
  const Json& normalizer = member(json, "normalizer");
  return member(normalizer, "type") == Json("Replace") &&
         member(member(normalizer, "pattern"), "String") == Json(" ") &&
         member(normalizer, "content") == Json("\u2581") &&
         !find_step(member(json, "pre_tokenizer"), "Metaspace");
}

}  // namespace

GgufTokens gguf_tokens_of(const Json& json, std::string_view doing) {
  const Json& model = member(json, "model");
  const Json& kind = member(model, "type");
  const bool bpe = kind == Json("BPE") || (kind.is_null() && model.contains("merges"));
  const bool bytes = find_step(member(json, "pre_tokenizer"), "ByteLevel") != nullptr;
  const bool pieces = member(model, "byte_fallback") == Json(true);
  if (!bpe || bytes == pieces) {
    fail("{}: expected a byte-level BPE or one with byte tokens, found {}", doing,
         bpe ? "another BPE" : quote(kind.dump()));
  }
  GgufTokens tokens;
  tokens.model = bytes ? "gpt2" : only_spells_spaces(json) ? "gemma4" : "llama";
  put_vocabulary(model, doing, tokens);
  put_added(json, doing, tokens);
  const auto merges = merges_of(model, doing);
  if (tokens.model != "llama") {
    for (const auto& [left, right] : merges) tokens.merges.push_back(left + " " + right);
  } else {
    score_by_merges(merges, tokens);
    tokens.adds_space = adds_space(json);
  }
  return tokens;
}

GgufTokens gguf_tokens_of(const SentencePieceModel& model, const std::vector<AddedPiece>& added,
                          std::string_view doing) {
  if (model.algorithm != SentencePieceModel::Algorithm::bpe) {
    fail("{}: expected a SentencePiece BPE, found a unigram model", doing);
  }
  GgufTokens tokens;
  tokens.model = "llama";
  tokens.adds_space = model.add_dummy_prefix;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    put(tokens, static_cast<TokenId>(tokens.texts.size()), piece.text, static_cast<int>(piece.type),
        doing);
    tokens.scores.push_back(piece.score);
  }
  for (const AddedPiece& piece : added) {
    const bool known = piece.id >= 0 && static_cast<std::size_t>(piece.id) < tokens.texts.size();
    if (known && tokens.types[static_cast<std::size_t>(piece.id)] != kNormal) continue;
    put(tokens, piece.id, piece.text, piece.special ? kControl : kUserDefined, doing);
  }
  tokens.scores.resize(tokens.texts.size());
  return tokens;
}

}  // namespace talon
