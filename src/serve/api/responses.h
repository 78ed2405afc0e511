#pragma once

#include "serve/api/generate.h"

namespace talon {

/// POST /v1/responses: texts in, a text out, whole or as events. Throws ApiError.
void serve_responses(const GenerateInput& input);

}  // namespace talon
