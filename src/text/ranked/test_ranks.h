#pragma once

#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"
#include "io/codec/base64.h"
#include "text/tokenizer.h"

namespace talon::test {

inline std::string base64_of(std::string_view bytes) {
  return to_base64(std::as_bytes(std::span(bytes)));
}

/// The 256 bytes in their order, then `more`.
inline std::vector<std::string> ranked_tokens(std::initializer_list<std::string_view> more) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

/// The tokenizer of a folder of which only the files beside the weights count.
inline Tokenizer load_folder(const std::filesystem::path& path) {
  Checkpoint checkpoint;
  checkpoint.format = CheckpointFormat::hugging_face;
  checkpoint.path = path;
  checkpoint.metadata = Json::object();
  return Tokenizer::for_checkpoint(checkpoint);
}

}  // namespace talon::test
