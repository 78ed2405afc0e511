#include "text/sentencepiece/sentencepiece_model.h"

#include "core/error.h"
#include "text/sentencepiece/protocol_buffer.h"

// Field numbers of
// https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
namespace talon {
namespace {

namespace model_field {
constexpr int kPieces = 1;
constexpr int kTrainer = 2;
constexpr int kNormalizer = 3;
}  // namespace model_field

namespace piece_field {
constexpr int kText = 1;
constexpr int kScore = 2;
constexpr int kType = 3;
}  // namespace piece_field

namespace trainer_field {
constexpr int kAlgorithm = 3;
constexpr int kWhitespaceAsSuffix = 24;
constexpr int kByteFallback = 35;
constexpr int kStartPiece = 46;
constexpr int kEndPiece = 47;
}  // namespace trainer_field

namespace normalizer_field {
constexpr int kCharacterMap = 2;
constexpr int kAddDummyPrefix = 3;
constexpr int kRemoveExtraWhitespaces = 4;
constexpr int kEscapeWhitespaces = 5;
}  // namespace normalizer_field

SentencePieceModel::Piece parse_piece(std::string_view message, std::string_view doing) {
  SentencePieceModel::Piece piece;
  for (ProtoReader reader(message, doing); reader.next();) {
    switch (reader.field()) {
      case piece_field::kText:
        piece.text = reader.bytes("piece");
        break;
      case piece_field::kScore:
        piece.score = reader.float32("score");
        break;
      case piece_field::kType: {
        const std::uint64_t type = reader.number("type");
        if (type < 1 || type > 6) fail("{}: type: expected 1 to 6, found {}", doing, type);
        piece.type = static_cast<SentencePieceModel::Type>(type);
        break;
      }
      default:
        break;
    }
  }
  return piece;
}

void parse_trainer(std::string_view message, std::string_view doing, SentencePieceModel& model) {
  for (ProtoReader reader(message, doing); reader.next();) {
    switch (reader.field()) {
      case trainer_field::kAlgorithm: {
        const std::uint64_t type = reader.number("model_type");
        if (type != 1 && type != 2) {
          fail("{}: trainer_spec.model_type: expected 1 (unigram) or 2 (BPE), found {}", doing,
               type);
        }
        model.algorithm = static_cast<SentencePieceModel::Algorithm>(type);
        break;
      }
      case trainer_field::kWhitespaceAsSuffix:
        model.whitespace_as_suffix = reader.boolean("treat_whitespace_as_suffix");
        break;
      case trainer_field::kByteFallback:
        model.byte_fallback = reader.boolean("byte_fallback");
        break;
      case trainer_field::kStartPiece:
        model.start_piece = reader.bytes("bos_piece");
        break;
      case trainer_field::kEndPiece:
        model.end_piece = reader.bytes("eos_piece");
        break;
      default:
        break;
    }
  }
}

void parse_normalizer(std::string_view message, std::string_view doing, SentencePieceModel& model) {
  for (ProtoReader reader(message, doing); reader.next();) {
    switch (reader.field()) {
      case normalizer_field::kCharacterMap:
        model.character_map = reader.bytes("precompiled_charsmap");
        break;
      case normalizer_field::kAddDummyPrefix:
        model.add_dummy_prefix = reader.boolean("add_dummy_prefix");
        break;
      case normalizer_field::kRemoveExtraWhitespaces:
        model.remove_extra_whitespaces = reader.boolean("remove_extra_whitespaces");
        break;
      case normalizer_field::kEscapeWhitespaces:
        model.escape_whitespaces = reader.boolean("escape_whitespaces");
        break;
      default:
        break;
    }
  }
}

}  // namespace

SentencePieceModel parse_sentencepiece(std::span<const std::byte> bytes, std::string_view doing) {
  const std::string_view message(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  SentencePieceModel model;
  for (ProtoReader reader(message, doing); reader.next();) {
    switch (reader.field()) {
      case model_field::kPieces: {
        const std::string where = fmt::format("{}: pieces[{}]", doing, model.pieces.size());
        model.pieces.push_back(parse_piece(reader.bytes("pieces"), where));
        break;
      }
      case model_field::kTrainer:
        parse_trainer(reader.bytes("trainer_spec"), doing, model);
        break;
      case model_field::kNormalizer:
        parse_normalizer(reader.bytes("normalizer_spec"), doing, model);
        break;
      default:
        break;
    }
  }
  return model;
}

std::string serialize(const SentencePieceModel& model) {
  ProtoWriter out;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    ProtoWriter entry;
    entry.bytes(piece_field::kText, piece.text);
    entry.float32(piece_field::kScore, piece.score);
    entry.number(piece_field::kType, static_cast<std::uint64_t>(piece.type));
    out.bytes(model_field::kPieces, entry.message());
  }
  ProtoWriter trainer;
  trainer.number(trainer_field::kAlgorithm, static_cast<std::uint64_t>(model.algorithm));
  trainer.number(trainer_field::kWhitespaceAsSuffix, model.whitespace_as_suffix ? 1 : 0);
  trainer.number(trainer_field::kByteFallback, model.byte_fallback ? 1 : 0);
  trainer.bytes(trainer_field::kStartPiece, model.start_piece);
  trainer.bytes(trainer_field::kEndPiece, model.end_piece);
  out.bytes(model_field::kTrainer, trainer.message());
  ProtoWriter normalizer;
  normalizer.bytes(normalizer_field::kCharacterMap, model.character_map);
  normalizer.number(normalizer_field::kAddDummyPrefix, model.add_dummy_prefix ? 1 : 0);
  normalizer.number(normalizer_field::kRemoveExtraWhitespaces,
                    model.remove_extra_whitespaces ? 1 : 0);
  normalizer.number(normalizer_field::kEscapeWhitespaces, model.escape_whitespaces ? 1 : 0);
  out.bytes(model_field::kNormalizer, normalizer.message());
  return out.message();
}

}  // namespace talon
