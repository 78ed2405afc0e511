#pragma once

#include <string>

#include "serve/api/limits.h"
#include "serve/served_model.h"

namespace talon {

// Paths that need no forward. text: of the body. Any thread. Throw ApiError.

/// POST /tokenize: `content` or `prompt`, or `messages` as the model is fed them.
Json tokenize(const ServedModel& model, const Json& body, const std::string& text,
              const RequestLimits& limits);
/// POST /detokenize: `tokens`.
Json detokenize(const ServedModel& model, const Json& body);
/// POST /apply-template: `messages`.
Json apply_template(const ServedModel& model, const Json& body, const std::string& text,
                    const RequestLimits& limits);

/// An entry of GET /v1/models. name: one of the model's.
Json model_json(const ServedModel& model, const std::string& name);
/// GET /v1/models/NAME: the same, with what an image model may be asked.
Json whole_model_json(const ServedModel& model, const std::string& name);
/// GET /props, as llama.cpp has it.
Json props_json(const ServedModel& model);
/// An entry of GET /v1/load.
Json load_json(const ServedModel& model);

}  // namespace talon
