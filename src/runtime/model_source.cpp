#include "runtime/model_source.h"

#include <fmt/ranges.h>

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
        fmt::format("open model {}: a catalogue name needs the folder of pulled models "
                    "(models_folder), and none is known",
                    source.model));
  }
  const std::filesystem::path path =
      catalogue_path(source.models_folder, entry, entry.files.front());
  std::error_code problem;
  const bool is_there = fs::exists(path, problem);
  if (problem) fail("open model {}: {}: {}", source.model, path.string(), problem.message());
  if (!is_there) {
    fail("open model {}: expected it at {}, but it is not there: run `talon pull {}`", source.model,
         path.string(), source.model);
  }
  return path;
}

/// Where a model's file is looked for.
enum class Depth { folder, all_below };

/// The files in `folder`, by their paths in it.
std::vector<std::string> files_in(const fs::path& folder, Depth depth) {
  std::vector<std::string> files;
  std::error_code problem;
  for (fs::recursive_directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored)) {
      files.push_back(entry->path().lexically_relative(folder).string());
    } else if (depth == Depth::folder) {
      entry.disable_recursion_pending();
    }
  }
  return files;
}

/// The model's file in a folder of GGUF files.
fs::path model_in(const fs::path& folder, Depth depth) {
  const std::vector<std::string> models = models_among(files_in(folder, depth));
  if (models.size() == 1) return folder / models.front();
  fail("open model {}: expected config.json or one GGUF model in it, found {}{}", folder.string(),
       models.empty() ? "none" : "several: say which: ", fmt::join(models, ", "));
}

/// What `talon pull OWNER/NAME[@REVISION][:FILE]` fetched. Empty: nothing, or a path is meant.
fs::path pulled_model(const ModelSource& source) {
  std::error_code problem;
  if (fs::exists(source.model, problem) || source.models_folder.empty()) return {};
  const std::size_t colon = source.model.find(':');
  const fs::path name = source.model.substr(0, colon);
  if (name.is_absolute() || !name.has_parent_path()) return {};
  fs::path path = source.models_folder / name;
  if (!fs::exists(path, problem)) path = source.models_folder / pulled_folder(name.string());
  if (colon != std::string::npos) {
    const auto files = files_in(path, Depth::all_below);
    const auto parts = parts_among(files, source.model.substr(colon + 1));
    return parts.empty() ? fs::path() : path / parts.front();
  }
  if (!fs::is_directory(path, problem) || fs::exists(path / "config.json", problem)) {
    return fs::exists(path, problem) ? path : fs::path();
  }
  return model_in(path, Depth::all_below);
}

/// A folder of that name among those that ship with the program; empty: none.
fs::path shipped_model(const ModelSource& source) {
  const fs::path name = source.model;
  std::error_code problem;
  if (name.has_parent_path() || fs::exists(name, problem)) return {};
  for (const fs::path& place : source.shipped) {
    if (fs::exists(place / name / "config.json", problem)) return place / name;
  }
  return {};
}

}  // namespace

std::filesystem::path resolve_model(const ModelSource& source) {
  if (const CatalogueEntry* entry = find_in_catalogue(source.model)) {
    return catalogue_model(*entry, source);
  }
  std::error_code problem;
  if (const auto pulled = pulled_model(source); !pulled.empty()) return pulled;
  if (const auto shipped = shipped_model(source); !shipped.empty()) return shipped;
  const auto kind = std::filesystem::status(source.model, problem).type();
  if (kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::none) {
    fail(
        "open model \"{}\": expected a file, a folder, a catalogue name ({}), a model that ships "
        "with Talon or what `talon pull OWNER/NAME` fetched, found none: {}",
        source.model, fmt::join(catalogue_names(), ", "),
        problem ? problem.message() : "No such file or directory");
  }
  if (kind == fs::file_type::directory &&
      !fs::exists(fs::path(source.model) / "config.json", problem)) {
    return model_in(source.model, Depth::folder);
  }
  return source.model;
}

std::filesystem::path pulled_folder(std::string_view name) {
  std::string folder(name);
  for (std::size_t i = folder.find('@', folder.find('/')); i < folder.size(); ++i) {
    if (folder[i] == '/') folder[i] = '@';
  }
  return folder;
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
