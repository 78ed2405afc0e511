#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/vocabulary.h"

namespace talon {

/// The chat template (Jinja) of Mistral's tokenizers of a version, without the spaces that those of
/// SentencePiece have; tools from v7 on. Nothing for other versions than v3, v7, v11 and v13, and
/// where a special token that it writes is missing. Source: mistral-common, instruct.py. Unlike
/// there, messages are not joined, and tools are written as they are given.
std::optional<std::string> tekken_chat_template(std::string_view version,
                                                const Vocabulary& vocabulary);

}  // namespace talon
