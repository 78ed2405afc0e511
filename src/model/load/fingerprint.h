#pragma once

#include <string>

#include "io/checkpoint.h"
#include "model/config/config.h"

namespace talon {

/// Names a model whatever its files are called and however its matrices are stored: 16 hexadecimal
/// digits of a hash of its sizes and its final norm, which every format keeps in full. A model that
/// was trained further has another one. Throws Error if the final norm is missing.
std::string fingerprint_of(const Checkpoint& checkpoint, const ModelConfig& config);

}  // namespace talon
