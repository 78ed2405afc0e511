#pragma once

#include <string>
#include <string_view>

namespace talon {

// What names of GGUF files say, by the habits of those who publish them.

/// NAME-00002-of-00003.gguf is a part of NAME: what its parts have in common. Other names are
/// whole.
std::string stem_of_gguf(std::string_view name);
/// A part that is not the first.
bool is_further_part(std::string_view name);
/// A draft head for the model beside it.
bool is_head_file(std::string_view name);
/// A model that can be opened: a GGUF file, or the first of several, that is neither a draft head
/// nor a projector of pictures.
bool is_model_file(std::string_view name);

}  // namespace talon
