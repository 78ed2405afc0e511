#include "runtime/heads.h"

#include <utility>

namespace talon {

HeadFinder heads_in(std::vector<std::filesystem::path> places, std::string model) {
  return [places = std::move(places), model = std::move(model)](std::string_view kind) {
    if (model.empty()) return std::string();
    const std::string folder = model + "-" + std::string(kind);
    for (const std::filesystem::path& place : places) {
      std::error_code problem;
      const std::filesystem::path file = place / folder / "head.gguf";
      if (std::filesystem::exists(file, problem)) return file.string();
      if (std::filesystem::exists(place / folder / "config.json", problem))
        return (place / folder).string();
    }
    return std::string();
  };
}

std::string resolve_drafter(const std::string& drafter, const HeadFinder& heads) {
  if (drafter != "auto") return drafter;
  for (const char* kind : {"eagle3", "eagle2", "medusa"}) {
    if (heads && !heads(kind).empty()) return std::string(kind) + "+suffix";
  }
  return "suffix";
}

}  // namespace talon
