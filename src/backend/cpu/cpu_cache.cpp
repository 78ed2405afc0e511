#include "backend/cpu/cpu_cache.h"

#include <cstring>
#include <vector>

#include "core/error.h"

namespace talon::cpu {
namespace {

std::size_t padded(int head_dim) {
  return static_cast<std::size_t>((head_dim + kLanes - 1) / kLanes * kLanes);
}
std::size_t bytes_of_value(const KvShape& shape) { return shape.type == KvType::f16 ? 2 : 4; }
std::size_t key_bytes(const KvShape& shape) {
  return static_cast<std::size_t>(kPageRows * shape.head_dim) * bytes_of_value(shape);
}
std::size_t bytes_of_block(const KvShape& shape) {
  return key_bytes(shape) + kPageRows * padded(shape.head_dim) * bytes_of_value(shape);
}
std::size_t bytes_of_page(const KvShape& shape) {
  return bytes_of_block(shape) * static_cast<std::size_t>(shape.layers * shape.kv_heads);
}

/// Of the first value of a slot's key in its block; the next ones follow 16 values apart.
std::size_t key_index(int head_dim, Slot slot) {
  const auto row = static_cast<std::size_t>(slot % kPageRows);
  return row / kLanes * static_cast<std::size_t>(head_dim) * kLanes + row % kLanes;
}

}  // namespace

Cache::Cache(const KvShape& kv_shape)
    : padded_dim(static_cast<int>(padded(kv_shape.head_dim))),
      value_offset(key_bytes(kv_shape)),
      block_bytes(bytes_of_block(kv_shape)),
      page_stride(bytes_of_page(kv_shape)),
      memory_(bytes_of_page(kv_shape) * static_cast<std::size_t>(kv_shape.pages)) {
  shape = kv_shape;
  bytes = memory_.size();
}

std::byte* Cache::block(int layer, int kv_head) const {
  return memory_.data() + static_cast<std::size_t>(layer * shape.kv_heads + kv_head) * block_bytes;
}

void Cache::write(int layer, int kv_head, Slot slot, const std::byte* key, const std::byte* value) {
  const std::size_t size = value_bytes();
  std::byte* place =
      block(layer, kv_head) + static_cast<std::size_t>(slot / kPageRows) * page_stride;
  std::byte* lane = place + key_index(shape.head_dim, slot) * size;
  const auto scatter = [&]<typename Value>(Value) {
    for (int d = 0; d < shape.head_dim; ++d) {
      std::memcpy(lane + static_cast<std::size_t>(d) * kLanes * sizeof(Value),
                  key + static_cast<std::size_t>(d) * sizeof(Value), sizeof(Value));
    }
  };
  if (shape.type == KvType::f16) {
    scatter(std::uint16_t{});
  } else {
    scatter(float{});
  }
  std::memcpy(place + value_offset + static_cast<std::size_t>(slot % kPageRows * padded_dim) * size,
              value, static_cast<std::size_t>(shape.head_dim) * size);
}

void Cache::read(int layer, int kv_head, Slot slot, std::byte* key, std::byte* value) const {
  const std::size_t size = value_bytes();
  const std::byte* place =
      block(layer, kv_head) + static_cast<std::size_t>(slot / kPageRows) * page_stride;
  const std::byte* lane = place + key_index(shape.head_dim, slot) * size;
  for (int d = 0; d < shape.head_dim; ++d, key += size, lane += kLanes * size) {
    std::memcpy(key, lane, size);
  }
  std::memcpy(value,
              place + value_offset + static_cast<std::size_t>(slot % kPageRows * padded_dim) * size,
              static_cast<std::size_t>(shape.head_dim) * size);
}

void Cache::copy_slots(std::span<const Slot> from, std::span<const Slot> to, ThreadPool& pool) {
  expects(from.size() == to.size(), "copy_kv(): a target for every source");
  const std::size_t row = static_cast<std::size_t>(shape.head_dim) * value_bytes();
  const auto items = static_cast<std::size_t>(shape.layers * shape.kv_heads);
  pool.run([&](int) {
    std::vector<std::byte> rows(2 * row * from.size());
    for (std::size_t item; (item = pool.next(0)) < items;) {
      const int layer = static_cast<int>(item) / shape.kv_heads;
      const int head = static_cast<int>(item) % shape.kv_heads;
      for (std::size_t i = 0; i < from.size(); ++i) {
        read(layer, head, from[i], &rows[2 * row * i], &rows[2 * row * i + row]);
      }
      for (std::size_t i = 0; i < to.size(); ++i) {
        write(layer, head, to[i], &rows[2 * row * i], &rows[2 * row * i + row]);
      }
    }
  });
}

}  // namespace talon::cpu
