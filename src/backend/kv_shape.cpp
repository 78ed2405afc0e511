#include "backend/backend.h"

namespace talon {

std::string_view name_of(KvType type) {
  switch (type) {
    case KvType::f32:
      return "f32";
    case KvType::f16:
      return "f16";
    case KvType::bf16:
      return "bf16";
  }
  return {};
}

std::size_t bytes_of(KvType type) { return type == KvType::f32 ? 4 : 2; }

std::size_t kv_page_bytes(const KvShape& shape) {
  std::size_t columns = 0;
  for (int layer = 0; layer < shape.layers; ++layer) {
    const KvWidth width = shape.width(layer);
    columns +=
        static_cast<std::size_t>(width.key_cols()) + static_cast<std::size_t>(width.value_cols());
  }
  return columns * kPageRows * bytes_of(shape.type);
}

}  // namespace talon
