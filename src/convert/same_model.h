#pragma once

#include <string_view>

#include "model/config/config.h"

namespace talon {

/// Throws Error, beginning with `doing`, unless both compute the same: it names the first thing
/// that `gguf`, as a GGUF says it, has otherwise. How files hold tensors does not count.
void check_same_model(const ModelConfig& model, const ModelConfig& gguf, std::string_view doing);

}  // namespace talon
