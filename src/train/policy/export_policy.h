#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>

#include "io/json.h"
#include "train/head/math/parameters.h"

namespace talon {

/// What inputs are shifted and divided by before the first layer, [inputs] each.
struct InputScale {
  torch::Tensor mean, deviation;
};

/// Writes all parameters (f32) under their names. Throws Error for values that are not finite and
/// for files that cannot be written; the file appears only when it is whole.
void export_policy(const std::filesystem::path& file, const ParameterStore& parameters,
                   const std::map<std::string, std::string>& metadata);

/// The same with the scale folded into in.weight and in.bias.
void export_length_predictor(const std::filesystem::path& file, const ParameterStore& parameters,
                             const InputScale& scale,
                             const std::map<std::string, std::string>& metadata);

/// README.md beside a file: `title`, then what `facts` says.
void write_policy_card(const std::filesystem::path& folder, const std::string& title,
                       const Json& facts);

}  // namespace talon
