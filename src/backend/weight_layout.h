#pragma once

#include <array>
#include <string_view>

#include "backend/memory.h"

namespace talon {

inline constexpr std::array kWeightLayouts = {WeightLayout::as_stored, WeightLayout::int8,
                                              WeightLayout::int4, WeightLayout::bf16,
                                              WeightLayout::f32};

/// "stored", "int8", "int4", "bf16" or "f32": how options and results name it.
std::string_view name_of(WeightLayout layout);

}  // namespace talon
