#include "cli/options/model_options.h"

#include <array>
#include <ranges>

#include "backend/cpu/cpu_features.h"
#include "cli/options/flags.h"

namespace talon {
namespace {

constexpr const char* kModelGroup = "Model and backend";

/// Each of `values` by its name.
template <typename T, std::size_t count>
Choices<T> by_name(const std::array<T, count>& values) {
  Choices<T> choices;
  for (const T value : values) choices.emplace_back(name_of(value), value);
  return choices;
}

/// The same beside `auto`, which is none.
template <typename T>
Choices<std::optional<T>> or_auto(const Choices<T>& choices) {
  Choices<std::optional<T>> all = {{"auto", std::nullopt}};
  for (const auto& [name, value] : choices) all.emplace_back(name, value);
  return all;
}

}  // namespace

const Choices<CpuKernels>& kernel_choices() {
  static const Choices<CpuKernels> kChoices = [] {
    Choices<CpuKernels> choices;
    choices.emplace_back(cpu::name_of(CpuKernels::best), CpuKernels::best);
    for (const CpuKernels value : std::views::reverse(cpu::kAllKernels))
      choices.emplace_back(cpu::name_of(value), value);
    return choices;
  }();
  return kChoices;
}

const Choices<Activations>& activation_choices() {
  static const Choices<Activations> kChoices =
      by_name(std::array{Activations::bits8, Activations::mixed, Activations::bits16});
  return kChoices;
}

const Choices<KvType>& kv_choices() {
  static const Choices<KvType> kChoices = by_name(kKvTypes);
  return kChoices;
}

void add_models_folder_flag(CLI::App& app, std::string& folder) {
  app.add_option(
         "--models", folder,
         "folder of pulled models (default: $TALON_MODELS, else ./downloads if it is there, else "
         "$XDG_DATA_HOME/talon, else ~/.local/share/talon)")
      ->type_name("DIR")
      ->group(kModelGroup);
}

void add_model_flag(CLI::App& app, ModelOptions& options) {
  app.add_option("-m,--model", options.model, std::string(kModelWords))
      ->required()
      ->type_name("MODEL")
      ->group(kModelGroup);
  add_models_folder_flag(app, options.models_folder);
}

void add_cells_flag(CLI::App& app, ModelOptions& options) {
  add_int(app, "--cells", options.image_side, 1, 256,
          "cells of a side, for an image model in a .pt file whose name does not tell them")
      ->group(kModelGroup);
}

void add_forward_flags(CLI::App& app, ModelOptions& options) {
  add_choice<BackendKind>(app, "--backend", options.backend,
                          {{"cpu", BackendKind::cpu}, {"reference", BackendKind::reference}},
                          "what computes")
      ->group(kModelGroup);
  add_choice<CpuKernels>(app, "--kernels", options.kernels, kernel_choices(),
                         "kernels of the cpu backend")
      ->group(kModelGroup);
  add_int(app, "--threads", options.threads, 0, 1024,
          "most threads, never more than processors; 0: all processors, or what a quota allows")
      ->group(kModelGroup);
  app.add_flag("--fixed-threads", options.fixed_threads,
               "do not work on fewer threads while other programs need the processors")
      ->group(kModelGroup);
  add_choice<WeightLayout>(app, "--weights", options.weights, by_name(kWeightLayouts),
                           "how weights are kept in memory")
      ->group(kModelGroup);
  add_choice<std::optional<Activations>>(
      app, "--activations", options.activations, or_auto(activation_choices()),
      "bits of the inputs of 4- and 8-bit weights (cpu); mixed: 16 for groups with large values, "
      "else 8; auto: mixed for small models, else 8; 16 also keeps the inputs of bf16 weights in "
      "float32, else they are rounded to bf16")
      ->group(kModelGroup);
  add_choice<std::optional<KvType>>(app, "--kv", options.kv, or_auto(kv_choices()),
                                    "type of the cache; bf16: attention in products of bf16 pairs; "
                                    "auto: f16 with 16 bits of inputs, else bf16")
      ->group(kModelGroup);
}

void add_cache_flag(CLI::App& app, ModelOptions& options) {
  add_int(
      app, "--cache-mb", options.cache_mb, 0, 1 << 20,
      "budget of the cache in MiB, 0 for one text of the whole context, at most 1024 and half of "
      "the available memory")
      ->group(kModelGroup);
}

void add_context_flag(CLI::App& app, ModelOptions& options) {
  add_int(app, "--context", options.context, 0, 1 << 24,
          "most positions of one text, 0 for all the model allows")
      ->group(kModelGroup);
}

void add_backend_flags(CLI::App& app, ModelOptions& options) {
  add_forward_flags(app, options);
  add_cache_flag(app, options);
  add_context_flag(app, options);
}

}  // namespace talon
