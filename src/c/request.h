#pragma once

#include <string>
#include <string_view>

#include "engine/request.h"
#include "runtime/loaded_model.h"
#include "talon.h"

namespace talon {

/// The known fields of what the caller gave. Throws UsageError naming the field for sizes and
/// pointers that cannot be meant; what needs the engine is checked there.
talon_request read_request(const talon_request* given);

/// How tokens are drawn.
SamplerOptions sampler_of(const talon_request& request);
/// The same. Throws UsageError naming the field for what a model of this vocabulary cannot do.
SamplerOptions checked_sampler_of(const talon_request& request, int vocabulary);
/// What sampler or engine say of a field of theirs, as a message about the caller's.
std::string of_request(std::string_view message);
/// All but the method and the form (c/forms.h). `model_ends`: tokens that end its answers.
Request request_of(const talon_request& request, std::span<const TokenId> model_ends);

}  // namespace talon
