#pragma once

#include "io/json.h"
#include "sample/sampler.h"

namespace talon {

/// The sampler as fields of a request to llama.cpp's server: all of them, since what is usual there
/// is another. Laws are the same but for presence and frequency, which count the prompt, too,
/// there. tokens: most that the prompt and its answer have, which a window of all of them is told
/// as: builds since 0.5 refuse the -1 of earlier ones, and a larger number takes memory.
Json llama_sampler_fields(const SamplerOptions& sampler, int tokens);

/// The sampler as fields of a request to OpenAI's interface, by the names that Talon and others
/// have for what OpenAI lacks. Endpoints may refuse what they do not know, so they are told what is
/// not usual. Throws UsageError for a window of the repetition penalty, which has no field.
Json endpoint_sampler_fields(const SamplerOptions& sampler);

}  // namespace talon
