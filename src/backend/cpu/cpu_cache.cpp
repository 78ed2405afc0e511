#include "backend/cpu/cpu_cache.h"

#include <cstring>

#include "core/error.h"

namespace talon::cpu {
namespace {

std::vector<Cache::Layer> place_layers(const KvShape& shape) {
  const std::size_t value_bytes = bytes_of(shape.type);
  std::vector<Cache::Layer> layers;
  std::size_t end = 0;
  for (int index = 0; index < shape.layers; ++index) {
    Cache::Layer layer;
    layer.width = shape.width(index);
    layer.padded_dim = (layer.width.value_dim + kLanes - 1) / kLanes * kLanes;
    layer.begin = end;
    layer.value_offset = static_cast<std::size_t>(kPageRows) *
                         static_cast<std::size_t>(layer.width.key_dim) * value_bytes;
    layer.block_bytes = layer.value_offset + static_cast<std::size_t>(kPageRows) *
                                                 static_cast<std::size_t>(layer.padded_dim) *
                                                 value_bytes;
    end += layer.block_bytes * static_cast<std::size_t>(layer.width.kv_heads);
    layers.push_back(layer);
  }
  return layers;
}

std::size_t bytes_of_page(const std::vector<Cache::Layer>& layers) {
  const Cache::Layer& last = layers.back();
  return last.begin + last.block_bytes * static_cast<std::size_t>(last.width.kv_heads);
}

/// Bytes at equal distances.
template <typename Byte>
struct Strided {
  Byte* at;
  std::size_t stride;
};

template <std::size_t kSize>
void copy_parts_of(Strided<std::byte> to, Strided<const std::byte> from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(to.at + i * to.stride, from.at + i * from.stride, kSize);
  }
}

/// The sizes that values and pairs have are known to the compiler; a whole row is one part.
void copy_parts(Strided<std::byte> to, Strided<const std::byte> from, std::size_t count,
                std::size_t size) {
  if (count == 1) {
    std::memcpy(to.at, from.at, size);
  } else if (size == 2) {
    copy_parts_of<2>(to, from, count);
  } else {
    expects(size == 4, "parts of a value or a pair of them");
    copy_parts_of<4>(to, from, count);
  }
}

std::size_t page_of(Slot slot) { return static_cast<std::size_t>(slot / kPageRows); }

}  // namespace

Cache::Cache(const KvShape& kv_shape)
    : layers_(place_layers(kv_shape)),
      memory_(bytes_of_page(layers_) * static_cast<std::size_t>(kv_shape.pages)) {
  page_stride = bytes_of_page(layers_);
  shape = kv_shape;
  bytes = memory_.size();
}

std::byte* Cache::block(int index, int kv_head) const {
  const Layer& place = layer(index);
  return memory_.data() + place.begin + static_cast<std::size_t>(kv_head) * place.block_bytes;
}

/// In a bf16 cache the values of a pair lie side by side.
Cache::Parts Cache::key_parts(const Layer& place, Slot slot) const {
  const auto row = static_cast<std::size_t>(slot % kPageRows);
  const std::size_t row_bytes = static_cast<std::size_t>(place.width.key_dim) * value_bytes();
  const std::size_t size = value_bytes() * (shape.type == KvType::bf16 ? 2 : 1);
  return {row / kLanes * kLanes * row_bytes + row % kLanes * size, row_bytes / size, size,
          kLanes * size};
}

Cache::Parts Cache::value_parts(const Layer& place, Slot slot) const {
  const auto row = static_cast<std::size_t>(slot % kPageRows);
  const auto dim = static_cast<std::size_t>(place.width.value_dim);
  const auto padded = static_cast<std::size_t>(place.padded_dim);
  const std::size_t size = value_bytes();
  if (shape.type != KvType::bf16) {
    return {place.value_offset + row * padded * size, 1, dim * size, 0};
  }
  return {place.value_offset + (row / 2 * padded * 2 + row % 2) * size, dim, size, 2 * size};
}

void Cache::write(int index, int kv_head, Slot slot, const std::byte* key, const std::byte* value) {
  std::byte* to = block(index, kv_head) + page_of(slot) * page_stride;
  const Parts keys = key_parts(layer(index), slot), values = value_parts(layer(index), slot);
  copy_parts({to + keys.at, keys.stride}, {key, keys.size}, keys.count, keys.size);
  copy_parts({to + values.at, values.stride}, {value, values.size}, values.count, values.size);
}

void Cache::read(int index, int kv_head, Slot slot, std::byte* key, std::byte* value) const {
  const std::byte* from = block(index, kv_head) + page_of(slot) * page_stride;
  const Parts keys = key_parts(layer(index), slot), values = value_parts(layer(index), slot);
  copy_parts({key, keys.size}, {from + keys.at, keys.stride}, keys.count, keys.size);
  copy_parts({value, values.size}, {from + values.at, values.stride}, values.count, values.size);
}

void Cache::copy_slots(std::span<const Slot> from, std::span<const Slot> to, ThreadPool& pool) {
  expects(from.size() == to.size(), "copy_kv(): a target for every source");
  struct Item {
    int layer, head;
  };
  std::vector<Item> items;
  for (int index = 0; index < shape.layers; ++index) {
    for (int head = 0; head < layer(index).width.kv_heads; ++head) items.push_back({index, head});
  }
  pool.run([&](int) {
    std::vector<std::byte> rows;
    for (std::size_t item; (item = pool.next(0)) < items.size();) {
      const auto [index, head] = items[item];
      const KvWidth& width = layer(index).width;
      const std::size_t key = static_cast<std::size_t>(width.key_dim) * value_bytes();
      const std::size_t both = key + static_cast<std::size_t>(width.value_dim) * value_bytes();
      rows.resize(both * from.size());
      for (std::size_t i = 0; i < from.size(); ++i) {
        read(index, head, from[i], &rows[both * i], &rows[both * i + key]);
      }
      for (std::size_t i = 0; i < to.size(); ++i) {
        write(index, head, to[i], &rows[both * i], &rows[both * i + key]);
      }
    }
  });
}

}  // namespace talon::cpu
