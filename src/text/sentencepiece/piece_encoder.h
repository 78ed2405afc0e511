#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace talon {

/// A model of the sentencepiece library. This header is all that other files see of the library: in
/// programs with libtorch it lives behind dlopen (piece_encoder_apart.cpp).
class PieceEncoder {
 public:
  virtual ~PieceEncoder() = default;
  /// Sets `ids` to the pieces of `text`, which is well-formed UTF-8. What went wrong, empty if
  /// nothing.
  virtual std::string encode(std::string_view text, std::vector<int>& ids) const = 0;
};

}  // namespace talon

/// The model in the protocol buffer `model`, owned by the caller. nullptr with a `problem` if it
/// cannot be.
extern "C" [[gnu::visibility("default")]] talon::PieceEncoder* talon_make_piece_encoder(
    const std::string& model, std::string& problem);
