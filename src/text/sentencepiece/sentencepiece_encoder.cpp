#include <cmath>
#include <map>
#include <set>

#include "core/error.h"
#include "io/quote.h"
#include "text/sentencepiece/added_pieces.h"
#include "text/sentencepiece/character_map.h"
#include "text/sentencepiece/piece_encoder.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/utf8.h"

namespace talon {
namespace {

using Piece = SentencePieceModel::Piece;
using Type = SentencePieceModel::Type;

constexpr std::string_view kSpaceMark = "\u2581";  // how pieces spell a space
constexpr std::size_t kMostPieces = 1 << 24;

bool is_special(const Piece& piece) {
  return piece.type == Type::control || piece.type == Type::unknown;
}

class SentencePieceEncoder : public Encoder {
 public:
  SentencePieceEncoder(const SentencePieceModel& model, std::vector<AddedPiece> added,
                       std::string_view doing)
      : added_(std::move(added)) {
    std::string problem;
    pieces_.reset(talon_make_piece_encoder(serialize(model), problem));
    if (pieces_ == nullptr) fail("{}: {}", doing, problem);
  }

  std::vector<TokenId> encode(std::string_view text,
                              std::span<const TextRange> own) const override {
    std::vector<TokenId> ids;
    std::size_t at = 0;
    while (at < text.size()) {
      const auto special = added_.find(text, at, own);
      encode_stretch(text.substr(at, (special ? special->begin : text.size()) - at), ids);
      if (!special) break;
      ids.push_back(special->id);
      at = special->begin + special->size;
    }
    return ids;
  }

 private:
  void encode_stretch(std::string_view text, std::vector<TokenId>& ids) const {
    if (text.empty()) return;
    std::vector<int> found;
    const std::string problem = pieces_->encode(text, found);
    if (!problem.empty()) fail("encode text of {} bytes: {}", text.size(), problem);
    ids.insert(ids.end(), found.begin(), found.end());
  }

  std::unique_ptr<PieceEncoder> pieces_;
  AddedPieces added_;
};

void check(const SentencePieceModel& model, std::string_view doing) {
  if (model.pieces.empty() || model.pieces.size() > kMostPieces) {
    fail("{}: pieces: expected 1 to {}, found {}", doing, kMostPieces, model.pieces.size());
  }
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    if (piece.text.empty() || piece.text.find('\0') != std::string::npos ||
        !is_well_formed(piece.text)) {
      fail("{}: piece {}: expected text in UTF-8 without zero bytes, found {}", doing, id,
           quote(piece.text));
    }
    if (!std::isfinite(piece.score)) {
      fail("{}: score of piece {} {}: expected a finite number, found {}", doing, id,
           quote(piece.text), piece.score);
    }
  }
  if (!model.character_map.empty()) check_character_map(model.character_map, doing);
}

/// `<0x0A>` is the byte 10.
std::string byte_of(const Piece& piece, std::string_view doing) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const std::string& text = piece.text;
  if (text.size() == 6 && text.starts_with("<0x") && text.ends_with('>')) {
    const std::size_t high = kDigits.find(text[3]);
    const std::size_t low = kDigits.find(text[4]);
    if (high < 16 && low < 16) return {static_cast<char>(high * 16 + low)};
  }
  fail("{}: byte piece: expected <0x00> to <0xFF>, found {}", doing, quote(text));
}

std::string with_spaces(std::string text) {
  for (std::size_t at = 0; (at = text.find(kSpaceMark, at)) != std::string::npos; ++at) {
    text.replace(at, kSpaceMark.size(), " ");
  }
  return text;
}

Vocabulary vocabulary_of(const SentencePieceModel& model, std::string_view doing) {
  Vocabulary vocabulary;
  using Kind = Vocabulary::Kind;
  for (const Piece& piece : model.pieces) {
    if (piece.type == Type::byte) {
      vocabulary.add(piece.text, byte_of(piece, doing), Kind::ordinary);
    } else if (is_special(piece)) {
      vocabulary.add(piece.text, piece.text, Kind::special);
    } else {
      vocabulary.add(piece.text, with_spaces(piece.text), Kind::ordinary);
    }
  }
  return vocabulary;
}

/// Pieces that a text is cut at: those of the model, then the further ones, which also get their
/// place in `vocabulary`.
std::vector<AddedPiece> cutting_pieces(const SentencePieceModel& model,
                                       std::span<const AddedPiece> added, Vocabulary& vocabulary) {
  std::vector<AddedPiece> cutting;
  std::set<std::string_view> texts;  // of `cutting`
  for (TokenId id = 0; id < static_cast<TokenId>(model.pieces.size()); ++id) {
    const Piece& piece = model.pieces[static_cast<std::size_t>(id)];
    const bool user_defined = model.split_at_user_defined && piece.type == Type::user_defined;
    if (!is_special(piece) && !user_defined) continue;
    cutting.push_back({id, piece.text, is_special(piece), piece.takes_spaces});
    texts.insert(piece.text);
  }
  std::map<TokenId, const AddedPiece*> further;
  for (const AddedPiece& piece : added) {
    if (!vocabulary.contains(piece.id)) further[piece.id] = &piece;
    if (texts.insert(piece.text).second) cutting.push_back(piece);
  }
  for (const auto& [id, piece] : further) {
    while (vocabulary.size() < id) vocabulary.add("", "", Vocabulary::Kind::absent);
    vocabulary.add(piece->text, piece->text,
                   piece->special ? Vocabulary::Kind::special : Vocabulary::Kind::ordinary);
  }
  return cutting;
}

void check_added(std::span<const AddedPiece> added, std::size_t pieces, std::string_view doing) {
  // Added tokens follow the pieces; a list that leaves most ids unused is a broken file.
  const std::size_t most = pieces + added.size() + 65536;
  for (const AddedPiece& piece : added) {
    if (piece.id < 0 || static_cast<std::size_t>(piece.id) >= most) {
      fail("{}: added token {}: expected an id below {}, found {}", doing, quote(piece.text), most,
           piece.id);
    }
  }
}

}  // namespace

TokenizerParts load_sentencepiece(const SentencePieceModel& model, std::string_view doing,
                                  std::span<const AddedPiece> added) {
  check(model, doing);
  check_added(added, model.pieces.size(), doing);
  TokenizerParts parts;
  parts.vocabulary = vocabulary_of(model, doing);
  std::vector<AddedPiece> cutting = cutting_pieces(model, added, parts.vocabulary);
  parts.encoder = std::make_unique<SentencePieceEncoder>(model, std::move(cutting), doing);
  const bool bpe = model.algorithm == SentencePieceModel::Algorithm::bpe;
  parts.kind = bpe ? "SentencePiece BPE" : "SentencePiece unigram";
  parts.drops_first_space = model.add_dummy_prefix && !model.whitespace_as_suffix;
  parts.start_token = parts.vocabulary.find_special(model.start_piece);
  parts.wants_start_token = parts.start_token.has_value();
  if (const auto end = parts.vocabulary.find_special(model.end_piece)) {
    parts.end_tokens.push_back(*end);
  }
  return parts;
}

}  // namespace talon
