#pragma once

#include <string>
#include <vector>

namespace talon {

// What names of GGUF files say, by the habits of those who publish them.

/// NAME-00002-of-00003.gguf is a part of NAME: what its parts have in common. Other names are
/// whole.
std::string stem_of_gguf(std::string_view name);
/// A part that is not the first.
bool is_further_part(std::string_view name);
/// A draft head for the model beside it, or its prediction layer (mtp-NAME.gguf).
bool is_head_file(std::string_view name);
/// A model that can be opened: a GGUF file, or the first of several, that is neither a draft head
/// nor a projector of pictures.
bool is_model_file(std::string_view name);

/// Of the files of a repository or folder those that stand for it, sorted: its models, beside which
/// what is called an importance matrix (imatrix) is none, or where it has no model what is called a
/// head (models are, too: Eagle-7B), each by its first part.
std::vector<std::string> models_among(const std::vector<std::string>& files);
/// Of them `name` and the other parts of the same model, sorted. A name may also be what the only
/// such model ends with, in any case: its quantisation, as Q4_K_M. Empty: it is not there.
std::vector<std::string> parts_among(const std::vector<std::string>& files, std::string_view name);

}  // namespace talon
