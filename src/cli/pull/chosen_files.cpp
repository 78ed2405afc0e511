#include "cli/pull/chosen_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "io/formats/gguf_names.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr std::string_view kConfiguration = "config.json";

/// What a folder is read from beside its weights.
bool is_beside_weights(std::string_view path) {
  constexpr std::string_view kNames[] = {kConfiguration,
                                         "generation_config.json",
                                         "tokenizer.json",
                                         "tokenizer.model",
                                         "tekken.json",
                                         "tiktoken.model",
                                         "tokenizer_config.json",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "chat_template.jinja",
                                         "chat_template.json",
                                         "additional_chat_templates/tool_use.jinja",
                                         "hf_quant_config.json",
                                         "classes.json",
                                         "words.json"};
  return std::ranges::find(kNames, path) != std::end(kNames);
}

bool is_safetensors(std::string_view path) {
  return path == "model.safetensors.index.json" ||
         (path.ends_with(".safetensors") && path.find('/') == std::string_view::npos);
}

bool is_torch(std::string_view path) {
  return path == "pytorch_model.bin.index.json" || path == "medusa_lm_head.pt" ||
         (path.starts_with("pytorch_model") && path.ends_with(".bin") &&
          path.find('/') == std::string_view::npos);
}

/// Mistral's folders hold the weights once more, as its own programs name them.
void leave_second_form(std::vector<std::string>& folder) {
  const auto is_usual = [](const std::string& path) {
    return path.starts_with("model") && path.ends_with(".safetensors");
  };
  if (std::ranges::none_of(folder, is_usual)) return;
  std::erase_if(folder, [](const std::string& path) { return path.starts_with("consolidated"); });
}

/// The files of a folder with such weights, sorted; empty: it is none.
std::vector<std::string> folder_among(const std::vector<std::string>& paths,
                                      bool (*is_weights)(std::string_view)) {
  std::vector<std::string> folder;
  if (std::ranges::find(paths, kConfiguration) == paths.end()) return folder;
  if (std::ranges::none_of(paths, is_weights)) return folder;
  std::ranges::copy_if(paths, std::back_inserter(folder), [&](const std::string& path) {
    return is_beside_weights(path) || is_weights(path);
  });
  leave_second_form(folder);
  std::ranges::sort(folder);
  return folder;
}

/// For a message: names that are not plain are made safe to show.
std::string list_of(std::vector<std::string> paths) {
  for (std::string& path : paths) {
    if (!is_safe_path(path)) path = quote(path);
  }
  return fmt::format("{}", fmt::join(paths, ", "));
}

std::vector<std::string> chosen_paths(const std::vector<std::string>& paths, const HubName& name) {
  const std::vector<std::string> models = models_among(paths);
  if (!name.file.empty()) {
    const auto parts = parts_among(paths, name.file);
    if (parts.empty()) {
      fail(
          "pull {}: expected one of its files, of which {} are models, or what one of these alone "
          "ends with, as Q4_K_M, got {}",
          without_file(name), list_of(models), quote(name.file));
    }
    return parts;
  }
  auto folder = folder_among(paths, is_safetensors);
  if (folder.empty() && models.empty()) folder = folder_among(paths, is_torch);
  if (!folder.empty()) return folder;
  if (models.empty()) {
    fail(
        "pull {}: expected a GGUF file, or config.json with safetensors, pytorch_model.bin or "
        "medusa_lm_head.pt, found neither",
        without_file(name));
  }
  if (models.size() > 1) {
    fail("pull {}: it has several models: say {}:FILE with one of {}", without_file(name),
         without_file(name), list_of(models));
  }
  std::vector<std::string> chosen = parts_among(paths, models.front());
  if (is_model_file(models.front())) {
    std::ranges::copy_if(paths, std::back_inserter(chosen), is_head_file);
  }
  return chosen;
}

}  // namespace

std::vector<HubFile> chosen_files(const HubListing& listing, const HubName& name) {
  std::vector<std::string> paths;
  for (const HubFile& file : listing.files) paths.push_back(file.path);
  std::vector<HubFile> files;
  for (const std::string& path : chosen_paths(paths, name)) {
    if (!is_safe_path(path)) {
      fail(
          "pull {}: expected plain names (letters, digits, \"-_.\") of the files to fetch, found "
          "{}",
          without_file(name), quote(path));
    }
    files.push_back(*std::ranges::find(listing.files, path, &HubFile::path));
  }
  return files;
}

}  // namespace talon
