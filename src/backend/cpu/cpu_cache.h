#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/huge_memory.h"
#include "backend/cpu/kernels/kernels.h"
#include "core/thread_pool.h"

namespace talon::cpu {

/// [page][layer][kv_head] blocks, each holding the keys and values of 64 slots as AttentionCall
/// wants them. Page by page, so that only pages in use take memory.
struct Cache : KvStore {
  explicit Cache(const KvShape& shape);

  /// Where the blocks of a layer lie in a page, and what they hold.
  struct Layer {
    KvWidth width;
    int padded_dim = 0;  // of a value
    std::size_t begin = 0;
    std::size_t block_bytes = 0;
    std::size_t value_offset = 0;  // of the values in a block
  };
  const Layer& layer(int index) const { return layers_[static_cast<std::size_t>(index)]; }
  std::size_t value_bytes() const { return bytes_of(shape.type); }
  /// Of the block of one layer and KV head in page 0; page p lies p * page_stride further.
  std::byte* block(int layer, int kv_head) const;

  /// Writes the key and value of one slot; both are in the cache's type.
  void write(int layer, int kv_head, Slot slot, const std::byte* key, const std::byte* value);
  void read(int layer, int kv_head, Slot slot, std::byte* key, std::byte* value) const;
  void copy_slots(std::span<const Slot> from, std::span<const Slot> to, ThreadPool& pool);

  std::size_t page_stride = 0;

 private:
  /// A key or value lies in a block as `count` parts of `size` bytes, `stride` bytes apart.
  struct Parts {
    std::size_t at, count, size, stride;
  };
  Parts key_parts(const Layer& place, Slot slot) const;
  Parts value_parts(const Layer& place, Slot slot) const;

  std::vector<Layer> layers_;
  HugeBlock memory_;
};

}  // namespace talon::cpu
