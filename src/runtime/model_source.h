#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/weight_layout.h"

namespace talon {

enum class BackendKind { cpu, reference };

/// Which model, what computes it and how its weights are kept.
struct ModelSource {
  /// A path, a name of the catalogue, the name of a folder in one of `shipped`, or
  /// OWNER/NAME[@REVISION][:FILE] of a hub.
  std::string model = {};
  std::string models_folder = {};                   // of pulled models; empty: none is known
  std::vector<std::filesystem::path> shipped = {};  // where models lie that ship with the program
  BackendKind backend = BackendKind::cpu;
  CpuKernels kernels = CpuKernels::best;
  int threads = 0;             // at most, and never more than processors; 0: worker_count()
  bool fixed_threads = false;  // not fewer while other programs need the processors
  WeightLayout weights = WeightLayout::as_stored;
  std::optional<Activations> activations = {};  // none: fit for the model
  int context = 0;                              // positions; 0: all the model allows
  int image_side = 0;  // cells of a picture's side, for a file that does not tell; 0: it does
};

/// The file or folder that is meant. Throws Error for one that is not there, with what to do;
/// UsageError for a name of the catalogue when no folder is known.
std::filesystem::path resolve_model(const ModelSource& source);

/// Where, in the folder of pulled models, that of a hub lies which is called `name`,
/// OWNER/NAME[@REVISION]: each revision has a folder, in whose name an @ stands for each slash of
/// REVISION.
std::filesystem::path pulled_folder(std::string_view name);

/// The name in the catalogue of the model at `path`, told by its file's name and size; empty: it is
/// none of them.
std::string catalogue_name_of(const std::filesystem::path& path);

}  // namespace talon
