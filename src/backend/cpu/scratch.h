#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace talon::cpu {

/// Working memory that grows to the largest request and stays. Aligned to 64 bytes.
class Scratch {
 public:
  /// At least `count` values, whose contents are lost when the memory has to grow. Throws
  /// std::bad_alloc where it cannot, and stays as it was.
  template <typename T>
  T* reserve(std::size_t count) {
    const std::size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
    if (bytes > bytes_) {
      memory_.reset(::operator new(bytes, kAlignment));
      bytes_ = bytes;
    }
    return static_cast<T*>(memory_.get());
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(void* memory) const { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace talon::cpu
