#include "cli/options/models_folder.h"

#include <cstdlib>

#include "cli/options/flags.h"
#include "core/error.h"

namespace talon {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::filesystem::path models_folder(const std::string& given) {
  if (!given.empty()) return given;
  if (const std::string chosen = environment("TALON_MODELS"); !chosen.empty()) return chosen;
  if (std::filesystem::is_directory("downloads")) return "downloads";
  if (const std::string data = environment("XDG_DATA_HOME"); !data.empty()) {
    return std::filesystem::path(data) / "talon";
  }
  const std::string home = environment("HOME");
  if (home.empty())
    throw UsageError(
        "no folder for models: give --models DIR (neither $TALON_MODELS nor $HOME is set)");
  return std::filesystem::path(home) / ".local" / "share" / "talon";
}

std::filesystem::path catalogue_path(const std::filesystem::path& folder,
                                     const CatalogueEntry& entry, const CatalogueFile& file) {
  return folder / entry.name / file.name;
}

std::filesystem::path resolve_model(const std::string& model, const std::filesystem::path& folder) {
  if (const CatalogueEntry* entry = find_in_catalogue(model)) {
    const std::filesystem::path path = catalogue_path(folder, *entry, entry->files.front());
    if (!std::filesystem::exists(path)) {
      fail("open model {}: expected it at {}, but it is not there: run `talon pull {}`", model,
           path.string(), model);
    }
    return path;
  }
  std::error_code problem;
  const auto kind = std::filesystem::status(model, problem).type();
  if (kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::none) {
    fail("open model \"{}\": expected a file, a folder or a catalogue name ({}), found none: {}",
         model, one_of(catalogue_names()),
         problem ? problem.message() : "No such file or directory");
  }
  return model;
}

}  // namespace talon
