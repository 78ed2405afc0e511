#include "backend/backend.h"

namespace talon {

std::size_t kv_page_bytes(const KvShape& shape) {
  const std::size_t value_bytes = shape.type == KvType::f16 ? 2 : 4;
  std::size_t columns = 0;
  for (int layer = 0; layer < shape.layers; ++layer) {
    const KvWidth width = shape.width(layer);
    columns +=
        static_cast<std::size_t>(width.key_cols()) + static_cast<std::size_t>(width.value_cols());
  }
  return columns * kPageRows * value_bytes;
}

}  // namespace talon
