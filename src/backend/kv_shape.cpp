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

namespace {

std::size_t page_bytes(const KvWidth& width, KvType type) {
  return static_cast<std::size_t>(width.key_cols() + width.value_cols()) * kPageRows *
         bytes_of(type);
}

}  // namespace

std::size_t kv_page_bytes(const KvShape& shape) {
  std::size_t bytes = 0;
  for (int layer = 0; layer < shape.layers; ++layer) {
    bytes += page_bytes(shape.width(layer), shape.type);
  }
  return bytes;
}

std::size_t near_page_bytes(const KvShape& shape) {
  std::size_t bytes = 0;
  for (const KvWidth& width : shape.near.widths) bytes += page_bytes(width, shape.type);
  return bytes;
}

}  // namespace talon
