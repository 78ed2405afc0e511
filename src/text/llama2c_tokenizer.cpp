#include <utility>

#include "core/error.h"
#include "io/byte_reader.h"
#include "io/mapped_file.h"
#include "text/loaders.h"
#include "text/sentencepiece/sentencepiece_model.h"

namespace talon {
namespace {

using Type = SentencePieceModel::Type;

constexpr TokenId kUnknown = 0;
constexpr TokenId kStart = 1;
constexpr TokenId kEnd = 2;
constexpr TokenId kFirstByte = 3;
constexpr TokenId kFirstPiece = kFirstByte + 256;
constexpr std::size_t kLongestPiece = 1 << 16;

/// The character U+00HH, which some exports wrote for the byte HH.
std::string latin1_character(int byte) {
  if (byte < 0x80) return {static_cast<char>(byte)};
  return {static_cast<char>(0xC0 | byte >> 6), static_cast<char>(0x80 | (byte & 0x3F))};
}

void check_byte(TokenId id, std::string_view text, std::string_view doing) {
  const int byte = id - kFirstByte;
  const std::string spelled = fmt::format("<0x{:02X}>", byte);
  const std::string raw(1, static_cast<char>(byte));
  if (text != spelled && text != raw && text != latin1_character(byte)) {
    fail("{}: token {}: expected the byte {}, found {}", doing, id, spelled, quote(text));
  }
}

/// Exports write spaces for the marks of SentencePiece.
std::string with_space_marks(std::string_view text) {
  std::string marked;
  for (const char c : text) {
    if (c == ' ') {
      marked += "\u2581";
    } else {
      marked += c;
    }
  }
  return marked;
}

SentencePieceModel::Piece piece_of(TokenId id, std::string_view text, float score,
                                   std::string_view doing) {
  if (id == kUnknown) return {"<unk>", 0.0F, Type::unknown};
  if (id == kStart) return {"<s>", 0.0F, Type::control};
  if (id == kEnd) return {"</s>", 0.0F, Type::control};
  if (id < kFirstPiece) {
    check_byte(id, text, doing);
    return {fmt::format("<0x{:02X}>", id - kFirstByte), 0.0F, Type::byte};
  }
  return {with_space_marks(text), score, Type::normal};
}

SentencePieceModel read_model(ByteReader& reader) {
  SentencePieceModel model;
  model.algorithm = SentencePieceModel::Algorithm::bpe;
  model.byte_fallback = true;
  model.remove_extra_whitespaces = false;
  reader.take<std::int32_t>("the longest token's size");
  while (reader.remaining() > 0) {
    const auto id = static_cast<TokenId>(model.pieces.size());
    const std::string what = fmt::format("token {}", id);
    const auto score = reader.take<float>(what);
    const auto size = reader.take<std::int32_t>(what);
    if (size < 0 || static_cast<std::size_t>(size) > kLongestPiece) {
      fail("{}: {}: expected a size of 0 to {}, found {}", reader.doing(), what, kLongestPiece,
           size);
    }
    const std::string_view text = reader.take_text(static_cast<std::size_t>(size), what);
    model.pieces.push_back(piece_of(id, text, score, reader.doing()));
  }
  if (static_cast<TokenId>(model.pieces.size()) < kFirstPiece) {
    fail("{}: expected at least {} tokens, found {}", reader.doing(), kFirstPiece,
         model.pieces.size());
  }
  return model;
}

std::string loading_llama2c(const std::filesystem::path& tok_bin) {
  return fmt::format("load tokenizer {}", quote(tok_bin.string()));
}

}  // namespace

TokenizerParts parse_llama2c_tokenizer(std::span<const std::byte> bytes, std::string doing) {
  ByteReader reader(bytes, std::move(doing));
  TokenizerParts parts = load_sentencepiece(read_model(reader), reader.doing());
  parts.start_token = kStart;
  parts.wants_start_token = true;
  parts.end_tokens = {kEnd, kStart};
  return parts;
}

SentencePieceModel read_llama2c_pieces(const std::filesystem::path& tok_bin) {
  const MappedFile file(tok_bin);
  ByteReader reader(file.bytes(), loading_llama2c(tok_bin));
  SentencePieceModel model = read_model(reader);
  file.check_whole();
  return model;
}

TokenizerParts load_llama2c_tokenizer(const std::filesystem::path& tok_bin) {
  const MappedFile file(tok_bin);
  TokenizerParts parts = parse_llama2c_tokenizer(file.bytes(), loading_llama2c(tok_bin));
  file.check_whole();
  return parts;
}

}  // namespace talon
