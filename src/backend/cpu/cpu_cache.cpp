#include "backend/cpu/cpu_cache.h"

#include <cstring>

#include "core/error.h"

namespace talon::cpu {
namespace {

std::vector<Cache::Layer> place_layers(const KvShape& shape) {
  const std::size_t value_bytes = shape.type == KvType::f16 ? 2 : 4;
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

/// Of the first value of a slot's key in its block; the next ones follow 16 values apart.
std::size_t key_index(int key_dim, Slot slot) {
  const auto row = static_cast<std::size_t>(slot % kPageRows);
  return row / kLanes * static_cast<std::size_t>(key_dim) * kLanes + row % kLanes;
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

void Cache::write(int index, int kv_head, Slot slot, const std::byte* key, const std::byte* value) {
  const Layer& place = layer(index);
  const std::size_t size = value_bytes();
  std::byte* to = block(index, kv_head) + page_of(slot) * page_stride;
  std::byte* lane = to + key_index(place.width.key_dim, slot) * size;
  const auto scatter = [&]<typename Value>(Value) {
    for (int d = 0; d < place.width.key_dim; ++d) {
      std::memcpy(lane + static_cast<std::size_t>(d) * kLanes * sizeof(Value),
                  key + static_cast<std::size_t>(d) * sizeof(Value), sizeof(Value));
    }
  };
  if (shape.type == KvType::f16) {
    scatter(std::uint16_t{});
  } else {
    scatter(float{});
  }
  std::memcpy(to + place.value_offset +
                  static_cast<std::size_t>(slot % kPageRows * place.padded_dim) * size,
              value, static_cast<std::size_t>(place.width.value_dim) * size);
}

void Cache::read(int index, int kv_head, Slot slot, std::byte* key, std::byte* value) const {
  const Layer& place = layer(index);
  const std::size_t size = value_bytes();
  const std::byte* from = block(index, kv_head) + page_of(slot) * page_stride;
  const std::byte* lane = from + key_index(place.width.key_dim, slot) * size;
  for (int d = 0; d < place.width.key_dim; ++d, key += size, lane += kLanes * size) {
    std::memcpy(key, lane, size);
  }
  std::memcpy(value,
              from + place.value_offset +
                  static_cast<std::size_t>(slot % kPageRows * place.padded_dim) * size,
              static_cast<std::size_t>(place.width.value_dim) * size);
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
