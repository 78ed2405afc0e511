#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace talon::cpu {

/// Working memory that grows to the largest request and stays. Aligned to 64 bytes.
class Scratch {
 public:
  /// At least `count` values, whose contents are lost when the memory has to grow.
  template <typename T>
  T* reserve(std::size_t count) {
    const std::size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
    if (bytes > bytes_) {
      memory_.reset(std::aligned_alloc(64, bytes));
      if (!memory_) throw std::bad_alloc();
      bytes_ = bytes;
    }
    return static_cast<T*>(memory_.get());
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace talon::cpu
