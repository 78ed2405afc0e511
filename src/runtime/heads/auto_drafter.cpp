#include "runtime/heads/auto_drafter.h"

#include <string_view>

#include "core/error.h"
#include "core/options.h"
#include "runtime/heads/head_kind.h"

namespace talon {
namespace {

constexpr std::string_view kAuto = "auto";

/// The table of drafters does not know `auto`, and so cannot list it.
void check_names(const std::string& drafter) {
  for (const std::string_view part : split_drafters(drafter)) {
    const std::string name = OptionText(part).name;
    if (name == kAuto) {
      throw UsageError(fmt::format(
          "drafter: expected auto alone, without options or others beside it, found \"{}\"",
          drafter));
    }
    if (find_row(drafters(), name)) continue;
    std::string known(kAuto);
    for (const DrafterEntry& entry : drafters()) known += fmt::format(", {}", entry.name);
    throw UsageError(fmt::format("drafter: expected one of {}, found \"{}\"", known, name));
  }
}

}  // namespace

OutputKind output_kind(const ModelConfig& config) {
  return config.image ? OutputKind::picture : OutputKind::text;
}

std::string resolve_drafter(const std::string& drafter, const HeadFinder& heads,
                            OutputKind output) {
  if (drafter != kAuto) {
    check_names(drafter);
    return drafter;
  }
  const std::string headless = output == OutputKind::picture ? "jacobi" : "suffix";
  for (const std::string_view kind : kHeadKinds) {
    if (heads && !heads(kind).empty()) return std::string(kind) + "+" + headless;
  }
  return headless;
}

}  // namespace talon
