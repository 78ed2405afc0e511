#include "text/sentencepiece/piece_encoder.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <memory>

namespace talon {
namespace {

class LibraryEncoder : public PieceEncoder {
 public:
  std::string load(const std::string& model) {
    try {
      const auto status = processor_.LoadFromSerializedProto(model);
      return status.ok() ? "" : status.error_message();
    } catch (const std::exception& error) {  // the trie that the library builds throws its own
      return error.what();
    }
  }

  std::string encode(std::string_view text, std::vector<int>& ids) const override {
    const auto status = processor_.Encode(text, &ids);
    return status.ok() ? "" : status.error_message();
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace
}  // namespace talon

talon::PieceEncoder* talon_make_piece_encoder(const std::string& model, std::string& problem) {
  auto encoder = std::make_unique<talon::LibraryEncoder>();
  problem = encoder->load(model);
  return problem.empty() ? encoder.release() : nullptr;
}
