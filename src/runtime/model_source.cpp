#include "runtime/model_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "io/formats/gguf_names.h"
#include "runtime/catalogue.h"

namespace talon {
namespace {

namespace fs = std::filesystem;

std::filesystem::path catalogue_model(const CatalogueEntry& entry, const ModelSource& source) {
  if (source.models_folder.empty()) {
    throw UsageError(
        fmt::format("open model {}: a catalogue name needs the folder of pulled models, and none "
                    "is given: set --models, $TALON_MODELS or $HOME",
                    source.model));
  }
  const std::filesystem::path path =
      catalogue_path(source.models_folder, entry, entry.files.front());
  if (!std::filesystem::exists(path)) {
    fail("open model {}: expected it at {}, but it is not there: run `talon pull {}`", source.model,
         path.string(), source.model);
  }
  return path;
}

/// The model's file in a folder of GGUF files.
fs::path model_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    const std::string name = entry.path().filename().string();
    if (is_model_file(name)) names.push_back(name);
  }
  if (names.size() == 1) return folder / names.front();
  std::ranges::sort(names);
  fail("open model {}: expected config.json or one GGUF model in it, found {}{}", folder.string(),
       names.empty() ? "none" : "several: say which: ", fmt::join(names, ", "));
}

/// What `talon pull OWNER/NAME[:FILE]` fetched. Empty: nothing, or a path is meant.
fs::path pulled_model(const ModelSource& source) {
  std::error_code problem;
  std::string name = source.model;
  if (fs::exists(name, problem) || source.models_folder.empty()) return {};
  if (const std::size_t colon = name.find(':'); colon != std::string::npos) name[colon] = '/';
  if (fs::path(name).is_absolute() || name.find('/') == std::string::npos) return {};
  const fs::path path = fs::path(source.models_folder) / name;
  if (!fs::is_directory(path, problem) || fs::exists(path / "config.json", problem)) {
    return fs::exists(path, problem) ? path : fs::path();
  }
  return model_in(path);
}

}  // namespace

std::filesystem::path resolve_model(const ModelSource& source) {
  if (const CatalogueEntry* entry = find_in_catalogue(source.model)) {
    return catalogue_model(*entry, source);
  }
  std::error_code problem;
  if (const auto pulled = pulled_model(source); !pulled.empty()) return pulled;
  const auto kind = std::filesystem::status(source.model, problem).type();
  if (kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::none) {
    fail(
        "open model \"{}\": expected a file, a folder, a catalogue name ({}) or what `talon pull "
        "OWNER/NAME` fetched, "
        "found none: {}",
        source.model, fmt::join(catalogue_names(), ", "),
        problem ? problem.message() : "No such file or directory");
  }
  if (kind == fs::file_type::directory &&
      !fs::exists(fs::path(source.model) / "config.json", problem)) {
    return model_in(source.model);
  }
  return source.model;
}

std::string catalogue_name_of(const std::filesystem::path& path) {
  std::error_code problem;
  const std::uintmax_t bytes = std::filesystem::file_size(path, problem);
  if (problem) return "";
  for (const CatalogueEntry& entry : catalogue()) {
    const CatalogueFile& file = entry.files.front();
    if (path.filename() == file.name && bytes == file.bytes) return std::string(entry.name);
  }
  return "";
}

}  // namespace talon
