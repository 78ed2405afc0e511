#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cli/options/flags.h"
#include "runtime/model_source.h"

namespace talon {

/// A model and the cache that a command answers from. models_folder: as given (places.h).
struct ModelOptions : ModelSource {
  std::optional<KvType> kv = {};  // none: as the backend likes it
  int cache_mb = 0;               // 0: usual_cache_bytes()
};

/// What a model may be, for the help of -m.
inline constexpr std::string_view kModelWords =
    "GGUF file, Hugging Face folder, llama2.c checkpoint, a name from talon pull list, or "
    "OWNER/NAME[@REVISION][:FILE] that talon pull has fetched";

/// Declares -m, required.
void add_model_flag(CLI::App& app, ModelOptions& options);
/// Declares --cells, of image models whose files do not tell their grid.
void add_cells_flag(CLI::App& app, ModelOptions& options);
/// Declares --models.
void add_models_folder_flag(CLI::App& app, std::string& folder);
/// Declares where and how the model runs, but neither room for texts nor how long they may be.
void add_forward_flags(CLI::App& app, ModelOptions& options);
/// Declares --cache-mb.
void add_cache_flag(CLI::App& app, ModelOptions& options);
/// Declares --context.
void add_context_flag(CLI::App& app, ModelOptions& options);
/// Declares everything but -m and --models.
void add_backend_flags(CLI::App& app, ModelOptions& options);

/// Values of --kernels.
const Choices<CpuKernels>& kernel_choices();
/// Values of --activations.
const Choices<Activations>& activation_choices();
/// Types of the cache.
const Choices<KvType>& kv_choices();

}  // namespace talon
