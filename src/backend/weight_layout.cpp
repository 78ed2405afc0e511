#include "backend/weight_layout.h"

#include "core/error.h"

namespace talon {

std::string_view name_of(WeightLayout layout) {
  switch (layout) {
    case WeightLayout::as_stored:
      return "stored";
    case WeightLayout::int8:
      return "int8";
    case WeightLayout::int4:
      return "int4";
    case WeightLayout::bf16:
      return "bf16";
    case WeightLayout::f32:
      return "f32";
  }
  throw Bug("a weight layout without a name");
}

}  // namespace talon
