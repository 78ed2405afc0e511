#pragma once

#include <string>

#include "io/checkpoint.h"
#include "io/json.h"
#include "model/config/config.h"

namespace talon {

/// Gemma 4's assistant (docs/methods.md 2.5): what its files say.
struct Gemma4AssistantConfig {
  /// Its layers. Their plans have queries alone: cache_layer and window are those of
  /// fit_to_target().
  ModelConfig text;
  int target_hidden = 0;
  // Its output rows lie in so many clusters of equal size, of which a row reads the likeliest; 0:
  // it reads all rows.
  int clusters = 0, clusters_read = 0;
};

/// Whether the files hold one: a folder that names it, or a GGUF of llama.cpp's architecture.
bool is_gemma4_assistant(const Checkpoint& checkpoint);

/// Throws Error naming the field for what no assistant has.
Gemma4AssistantConfig read_gemma4_assistant_config(const Checkpoint& checkpoint);

/// Lets each layer see the keys and values that its target has: those of the last layer of its kind
/// that has its own. Throws Error, beginning with `doing`, naming the field in which they disagree.
void fit_to_target(Gemma4AssistantConfig& config, const ModelConfig& target,
                   const std::string& doing);
/// The same of files that are not loaded.
void check_gemma4_assistant_fits(const Checkpoint& assistant, const ModelConfig& target);

/// For `talon inspect`.
Json describe_gemma4_assistant(const Checkpoint& checkpoint);

}  // namespace talon
