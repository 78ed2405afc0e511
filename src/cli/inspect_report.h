#pragma once

#include <string>

#include "cli/options/model_options.h"
#include "io/checkpoint.h"
#include "io/json.h"

namespace talon {

/// What a model's or head's files hold: {"path", "format", "config", "tensors", "kept",
/// "tokenizer", "activations"}, of a model also "drafts" and "cache" (inspect_drafts.h), of one
/// that draws "pictures" (inspect_pictures.h); "config" and "tokenizer" are {"problem": reason}
/// where the files do not describe one. A head has no tokenizer and computes as its target does:
/// both null. A model of texts is loaded as `options` say, but none of it is kept (weigh_model.h);
/// "load_problem" says why one cannot be. Of others, every tensor is loaded by itself.
Json inspect_checkpoint(const Checkpoint& checkpoint, const ModelOptions& options);

/// What inspect_checkpoint() found, as text for people.
std::string inspect_text(const Json& report);

/// {"machine", "kernels", "bandwidth_gb_s", "multiply_gmac_s", ...} of this machine and what the
/// options choose on it.
Json inspect_machine(const ModelOptions& options);
std::string machine_text(const Json& report);

}  // namespace talon
