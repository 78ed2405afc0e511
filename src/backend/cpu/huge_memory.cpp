#include "backend/cpu/huge_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "core/error.h"

namespace talon::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kBlockBytes = std::size_t{32} << 20;

std::size_t round_up_bytes(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

HugeBlock::HugeBlock(std::size_t bytes) : bytes_(bytes) {
  mapped_bytes_ = round_up_bytes(bytes, kHugePage) + kHugePage;
  void* mapping =
      mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) fail("allocate memory: no room for {} bytes", bytes);
  mapping_ = static_cast<std::byte*>(mapping);
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  data_ = mapping_ + (round_up_bytes(address, kHugePage) - address);
  madvise(mapping, mapped_bytes_, MADV_HUGEPAGE);  // a refusal only costs speed
}

HugeBlock::~HugeBlock() { munmap(mapping_, mapped_bytes_); }

std::shared_ptr<std::byte> HugeArena::allocate(std::size_t bytes) {
  const std::size_t wanted = round_up_bytes(bytes, 64);
  if (!block_ || used_ + wanted > block_->size()) {
    auto block = std::make_shared<HugeBlock>(wanted > kBlockBytes / 4 ? wanted : kBlockBytes);
    std::shared_ptr<std::byte> piece(block, block->data());
    if (wanted > kBlockBytes / 4) return piece;
    block_ = std::move(block);
    used_ = 0;
  }
  std::shared_ptr<std::byte> piece(block_, block_->data() + used_);
  used_ += wanted;
  return piece;
}

std::size_t huge_page_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  while (file >> word) {
    if (word != "AnonHugePages:") continue;
    std::size_t kilobytes = 0;
    file >> kilobytes;
    return kilobytes << 10;
  }
  return 0;
}

}  // namespace talon::cpu
