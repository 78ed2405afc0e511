#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace talon {

/// Reads lines of a token's bytes in base64, a space and its rank, as tiktoken's load_tiktoken_bpe
/// does: the tokens by rank. Throws Error, beginning with `doing`, that names the line.
std::vector<std::string> parse_tiktoken(std::string_view text, std::string_view doing);

/// Whether the first line of a file is one of these: a tokenizer.model may be SentencePiece's.
bool is_tiktoken_file(const std::filesystem::path& path);

}  // namespace talon
