#include "backend/backend.h"

namespace talon {

std::size_t kv_page_bytes(const KvShape& shape) {
  const std::size_t value_bytes = shape.type == KvType::f16 ? 2 : 4;
  return std::size_t{2} * static_cast<std::size_t>(shape.layers) * kPageRows *
         static_cast<std::size_t>(shape.kv_heads) * static_cast<std::size_t>(shape.head_dim) *
         value_bytes;
}

}  // namespace talon
