#pragma once

#include <string>
#include <string_view>

namespace talon {

/// What the name in a GGUF's `tokenizer.ggml.pre` stands for: how text is cut up before a
/// byte-level BPE.
struct PreTokenizer {
  std::string_view name;
  std::string_view pipeline;  // JSON, see talon_bpe in bridge.h: as the model's makers publish it
  bool adds_start = false;  // whether text begins with the start token where the file does not say
};

/// nullptr if the name is not known.
const PreTokenizer* find_pre_tokenizer(std::string_view name);
/// All known names, for a message.
std::string pre_tokenizer_names();

}  // namespace talon
