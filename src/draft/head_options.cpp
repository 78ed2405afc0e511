#include "draft/head_options.h"

#include "backend/weight_layout.h"
#include "core/error.h"
#include "io/quote.h"

namespace talon {

std::string take_head_path(OptionText& options, const DrafterContext& context,
                           std::string_view kind) {
  const std::string given = options.take_text("head", "");
  return given.empty() ? context.find_head(kind) : given;
}

WeightLayout take_layout(OptionText& options) {
  const std::string text = options.take_text("weights", "int8");
  std::string names;
  for (const WeightLayout layout : kWeightLayouts) {
    if (text == name_of(layout)) return layout;
    names += names.empty() ? "" : ", ";
    names += name_of(layout);
  }
  throw UsageError(fmt::format("{}: option weights: expected one of {}, found {}", options.name(),
                               names, quote(text)));
}

void require_head(const OptionText& options, const std::string& path) {
  if (!path.empty()) return;
  throw UsageError(fmt::format("{}: needs head=PATH, a draft head that was trained for the model",
                               options.name()));
}

}  // namespace talon
