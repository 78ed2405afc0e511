#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace talon {

/// What a name in a GGUF's `tokenizer.ggml.pre` stands for: how text is cut up before a byte-level
/// BPE. The names are those that llama.cpp writes, the definitions those of the models' makers.
struct PreTokenizer {
  std::string pipeline;     // JSON, see talon_bpe in bridge.h
  bool adds_start = false;  // whether text begins with the start token where the file does not say
};

/// Nothing if the name is not known.
std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name);
std::vector<std::string_view> pre_tokenizer_names();

}  // namespace talon
