#include "cli/options/model_options.h"

#include "cli/options/flags.h"

namespace talon {
namespace {

constexpr const char* kModelGroup = "Model and backend";

const Choices<WeightLayout>& layouts() {
  static const Choices<WeightLayout> kLayouts = [] {
    Choices<WeightLayout> choices;
    for (const WeightLayout value : kWeightLayouts) {
      choices.emplace_back(name_of(value), value);
    }
    return choices;
  }();
  return kLayouts;
}

}  // namespace

const Choices<CpuKernels>& kernel_choices() {
  static const Choices<CpuKernels> kChoices = {{"best", CpuKernels::best},
                                               {"portable", CpuKernels::portable},
                                               {"avx2", CpuKernels::avx2},
                                               {"avx512_vnni", CpuKernels::avx512_vnni},
                                               {"avx512_bf16", CpuKernels::avx512_bf16},
                                               {"amx", CpuKernels::amx}};
  return kChoices;
}

const Choices<Activations>& activation_choices() {
  static const Choices<Activations> kChoices = [] {
    Choices<Activations> choices;
    for (const auto value : {Activations::bits8, Activations::mixed, Activations::bits16}) {
      choices.emplace_back(name_of(value), value);
    }
    return choices;
  }();
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
  app.add_option(
         "-m,--model", options.model,
         "GGUF file, Hugging Face folder, llama2.c checkpoint, a name from talon pull list, "
         "or OWNER/NAME[:FILE] that talon pull has fetched")
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
  add_choice<WeightLayout>(app, "--weights", options.weights, layouts(),
                           "how weights are kept in memory")
      ->group(kModelGroup);
  Choices<std::optional<Activations>> choices = {{"auto", std::nullopt}};
  for (const auto& [name, value] : activation_choices()) choices.emplace_back(name, value);
  add_choice<std::optional<Activations>>(
      app, "--activations", options.activations, choices,
      "bits of the inputs of 4- and 8-bit weights (cpu); mixed: 16 for groups with large values, "
      "else 8; auto: mixed for small models, else 8; 16 also keeps the inputs of bf16 weights in "
      "float32, else they are rounded to bf16")
      ->group(kModelGroup);
  add_choice<std::optional<KvType>>(
      app, "--kv", options.kv,
      {{"auto", std::nullopt}, {"bf16", KvType::bf16}, {"f16", KvType::f16}, {"f32", KvType::f32}},
      "type of the cache; bf16: attention in products of bf16 pairs; "
      "auto: f16 with 16 bits of inputs, else bf16")
      ->group(kModelGroup);
}

void add_cache_flag(CLI::App& app, ModelOptions& options) {
  add_int(app, "--cache-mb", options.cache_mb, 0, 1 << 20,
          "budget of the cache in MiB, 0 for one whole context, at most 1024")
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
