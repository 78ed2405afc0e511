#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "backend/cpu/cpu.h"
#include "cli/options/flags.h"

namespace talon {

enum class BackendKind { cpu, reference };

/// Which model, where it runs and how it is kept.
struct ModelOptions {
  std::string model;          // a path or a catalogue name
  std::string models_folder;  // empty: see models_folder.h
  BackendKind backend = BackendKind::cpu;
  CpuKernels kernels = CpuKernels::best;
  int threads = 0;  // 0: all processors this process may use
  WeightLayout weights = WeightLayout::as_stored;
  std::optional<Activations> activations;  // none: fit for the model
  KvType kv = KvType::f16;
  int context = 0;   // positions; 0: all the model allows
  int cache_mb = 0;  // 0: enough for one text of the whole context, at most 1024
};

/// Declares -m, required.
void add_model_flag(CLI::App& app, ModelOptions& options);
/// Declares --models.
void add_models_folder_flag(CLI::App& app, std::string& folder);
/// Declares where and how the model runs, but not how long its texts may be.
void add_forward_flags(CLI::App& app, ModelOptions& options);
/// Declares everything but -m and --models.
void add_backend_flags(CLI::App& app, ModelOptions& options);

std::string_view name_of(WeightLayout layout);
/// Values of --activations.
const Choices<Activations>& activation_choices();

}  // namespace talon
