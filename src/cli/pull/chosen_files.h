#pragma once

#include <vector>

#include "cli/pull/hub.h"

namespace talon {

/// What to fetch, the model first: the file that the name says and its further parts, else
/// configuration, tokenizer and weights of a folder (torch's if it has neither safetensors nor a
/// GGUF model), else the only GGUF model with the draft heads beside it (where no GGUF is a model
/// by its name: the only one that is called a head). Throws Error listing the choices where the
/// name leaves several, and for a file to fetch whose path is not safe.
std::vector<HubFile> chosen_files(const HubListing& listing, const HubName& name);

}  // namespace talon
