#include "runtime/model_source.h"

#include <fmt/ranges.h>

#include "core/error.h"
#include "runtime/catalogue.h"

namespace talon {
namespace {

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

}  // namespace

std::filesystem::path resolve_model(const ModelSource& source) {
  if (const CatalogueEntry* entry = find_in_catalogue(source.model)) {
    return catalogue_model(*entry, source);
  }
  std::error_code problem;
  const auto kind = std::filesystem::status(source.model, problem).type();
  if (kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::none) {
    fail("open model \"{}\": expected a file, a folder or a catalogue name ({}), found none: {}",
         source.model, fmt::join(catalogue_names(), ", "),
         problem ? problem.message() : "No such file or directory");
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
