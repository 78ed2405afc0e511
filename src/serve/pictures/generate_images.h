#pragma once

#include "serve/api/generate.h"

namespace talon {

/// POST /v1/images/generations: read, hand to the engine, decode, PNG. Any thread. Throws ApiError.
void serve_images(const GenerateInput& input);

}  // namespace talon
