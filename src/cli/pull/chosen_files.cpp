#include "cli/pull/chosen_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "io/formats/gguf_names.h"
#include "io/quote.h"

namespace talon {
namespace {

bool is_of_folder(const std::string& path) {
  constexpr std::string_view kNames[] = {
      "config.json",         "generation_config.json", "tokenizer.json",
      "tokenizer.model",     "tokenizer_config.json",  "special_tokens_map.json",
      "chat_template.jinja", "added_tokens.json",      "model.safetensors.index.json"};
  if (path.find('/') != std::string::npos) return false;
  return std::ranges::find(kNames, path) != std::end(kNames) || path.ends_with(".safetensors");
}

/// The files of a model folder, sorted; empty: it is none.
std::vector<std::string> folder_among(const std::vector<std::string>& paths) {
  std::vector<std::string> folder;
  std::ranges::copy_if(paths, std::back_inserter(folder), is_of_folder);
  std::ranges::sort(folder);
  const auto has = [&](std::string_view ending) {
    return std::ranges::any_of(folder, [&](const auto& path) { return path.ends_with(ending); });
  };
  return has("config.json") && has(".safetensors") ? folder : std::vector<std::string>();
}

std::vector<HubFile> files_of(const HubListing& listing, const std::vector<std::string>& paths) {
  std::vector<HubFile> files;
  for (const std::string& path : paths) {
    files.push_back(*std::ranges::find(listing.files, path, &HubFile::path));
  }
  return files;
}

}  // namespace

std::vector<HubFile> chosen_files(const HubListing& listing, const HubName& name) {
  std::vector<std::string> paths;
  for (const HubFile& file : listing.files) paths.push_back(file.path);
  const std::vector<std::string> models = models_among(paths);
  if (!name.file.empty()) {
    const auto parts = parts_among(paths, name.file);
    if (parts.empty()) {
      fail("pull {}: expected one of its files, of which {} are models, got {}", name.repository,
           fmt::join(models, ", "), quote(name.file));
    }
    return files_of(listing, parts);
  }
  if (const auto folder = folder_among(paths); !folder.empty()) return files_of(listing, folder);
  if (models.empty()) {
    fail("pull {}: expected a GGUF file, or config.json with safetensors, found neither",
         name.repository);
  }
  if (models.size() > 1) {
    fail("pull {}: it has several models: say {}:FILE with one of {}", name.repository,
         name.repository, fmt::join(models, ", "));
  }
  std::vector<std::string> chosen = parts_among(paths, models.front());
  if (is_model_file(models.front())) {
    std::ranges::copy_if(paths, std::back_inserter(chosen), is_head_file);
  }
  return files_of(listing, chosen);
}

}  // namespace talon
