#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "io/json.h"

namespace talon {

/// The first name in `tokenizer.ggml.pre` that `fits` and whose tokenizers cut `probe` as this
/// tokenizer.json does, whatever its vocabulary; nothing if there is none. Likely names come first:
/// spelled alike, and alike in whether pieces that are tokens are taken whole; one for each way of
/// cutting. Throws Error, beginning with `doing`, for a pipeline that cannot be run.
std::optional<std::string_view> find_cutting(const Json& tokenizer_json, std::string_view probe,
                                             std::string_view doing,
                                             const std::function<bool(std::string_view)>& fits);

}  // namespace talon
