#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/encoder.h"

namespace talon {

/// What a SentencePiece model holds, wherever it came from. The numbers are those of
/// sentencepiece_model.proto.
struct SentencePieceModel {
  enum class Algorithm { unigram = 1, bpe = 2 };
  enum class Type { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    float score = 0.0F;
    Type type = Type::normal;
    bool takes_spaces = false;  // AddedPiece::takes_spaces, of one that text is cut at
  };

  std::vector<Piece> pieces;  // by id
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  std::string start_piece = "<s>";
  std::string end_piece = "</s>";
  // The normalizer.
  std::string character_map;  // compiled rules; empty: text is taken as it is
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  // Text of user-defined pieces is cut out before anything else, as special tokens are.
  bool split_at_user_defined = false;
};

/// Reads the protocol buffer in a tokenizer.model. Throws Error, beginning with `doing`, that names
/// the field.
SentencePieceModel parse_sentencepiece(std::span<const std::byte> bytes, std::string_view doing);

/// The model as a protocol buffer, for the sentencepiece library.
std::string serialize(const SentencePieceModel& model);

/// A further token that a model's other files add, by its text.
struct AddedPiece {
  TokenId id;
  std::string text;
  bool special = true;
  bool takes_spaces = false;  // white space behind it is a part of it ("rstrip")
};

/// Sets encoder, vocabulary, kind, drops_first_space, and from the piece names start_token,
/// wants_start_token and end_tokens. Control and unknown pieces are special tokens. Text between
/// special tokens is encoded on its own, with its own first space. Throws Error, beginning with
/// `doing`, for a model that cannot be.
TokenizerParts load_sentencepiece(const SentencePieceModel& model, std::string_view doing,
                                  std::span<const AddedPiece> added = {});

}  // namespace talon
