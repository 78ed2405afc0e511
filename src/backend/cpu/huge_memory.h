#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace talon::cpu {

/// Zeroed memory straight from the system, aligned to and backed by huge pages where it grants
/// them. The system accounts for all of it at once, but pages take room only when they are touched:
/// a cache for long texts costs a short one nothing. Who wants more than a small part of the
/// machine asks available_memory() first.
class HugeBlock {
 public:
  /// Throws Error if the system has no room, ever or by its rules of overcommitment.
  explicit HugeBlock(std::size_t bytes);
  ~HugeBlock();
  HugeBlock(const HugeBlock&) = delete;
  HugeBlock& operator=(const HugeBlock&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* mapping_;
  std::size_t mapped_bytes_;
  std::byte* data_;
  std::size_t bytes_;
};

/// Hands out 64-byte aligned pieces of HugeBlocks one after the other, so that small matrices share
/// huge pages. A piece holds a share of its block, which goes when its last piece does: weights may
/// be freed in any order, and after the arena.
class HugeArena {
 public:
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

 private:
  std::shared_ptr<HugeBlock> block_;
  std::size_t used_ = 0;
};

/// How much memory of this process lies in huge pages; 0 if the system does not tell.
std::size_t huge_page_bytes();

}  // namespace talon::cpu
