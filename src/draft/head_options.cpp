#include "draft/head_options.h"

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
  if (text == "int8") return WeightLayout::int8;
  if (text == "int4") return WeightLayout::int4;
  if (text == "bf16") return WeightLayout::bf16;
  if (text == "f32") return WeightLayout::f32;
  if (text == "as_stored") return WeightLayout::as_stored;
  throw UsageError(
      fmt::format("{}: option weights: expected int8, int4, bf16, f32 or as_stored, found {}",
                  options.name(), quote(text)));
}

void require_head(const OptionText& options, const std::string& path) {
  if (!path.empty()) return;
  throw UsageError(fmt::format("{}: needs head=PATH, a draft head that was trained for the model",
                               options.name()));
}

}  // namespace talon
