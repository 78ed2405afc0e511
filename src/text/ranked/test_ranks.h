#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"
#include "text/tokenizer.h"

namespace talon::test {

/// With its padding.
inline std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view part = bytes.substr(i, 3);
    unsigned bits = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      bits = (bits << 8) | (j < part.size() ? static_cast<unsigned char>(part[j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += j > part.size() ? '=' : kDigits[(bits >> (18 - 6 * j)) & 63];
    }
  }
  return text;
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
