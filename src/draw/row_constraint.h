#pragma once

#include <memory>

#include "model/config/config.h"
#include "sample/token_constraint.h"

namespace talon {

/// What a picture's tokens must be where its sequence holds more than codes: the token between rows
/// of cells at its places, codes everywhere else. Null: all tokens of its answers are codes.
std::shared_ptr<const ConstraintSource> picture_constraint(const ModelConfig& config);

}  // namespace talon
