#include "cli/options/places.h"

#include "cli/environment.h"

namespace talon {

std::string models_folder(const std::string& given) {
  if (!given.empty()) return given;
  if (const std::string chosen = environment("TALON_MODELS"); !chosen.empty()) return chosen;
  std::error_code ignored;
  if (std::filesystem::is_directory("downloads", ignored)) return "downloads";
  if (const std::string data = environment("XDG_DATA_HOME"); !data.empty()) return data + "/talon";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.local/share/talon";
}

std::filesystem::path costs_folder() {
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/talon/costs";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/talon/costs";
}

std::vector<std::filesystem::path> shipped_places() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  return {"models", program.parent_path() / "models",
          program.parent_path() / "share" / "talon" / "models"};
}

}  // namespace talon
