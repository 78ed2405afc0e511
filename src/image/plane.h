#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace talon {

/// Of a grid of cells.
struct PlaneSize {
  int rows = 0, columns = 0, channels = 0;

  std::size_t cells() const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  }
  std::size_t values() const { return cells() * static_cast<std::size_t>(channels); }
  bool operator==(const PlaneSize&) const = default;
};

class PlaneMemory;

struct GiveBackValues {
  void operator()(float* values) const;

  PlaneMemory* memory = nullptr;  // null: to the system
  std::size_t count = 0;
};
/// Aligned to 64 bytes. Not set when they are new.
using PlaneValues = std::unique_ptr<float[], GiveBackValues>;

/// Memory of planes that are gone, for those that follow. The system clears what it gives page by
/// page, which takes longer than many a layer. For any number of threads; outlives the planes.
class PlaneMemory {
 public:
  PlaneMemory() { idle_.reserve(kMostIdle); }

  /// At least so many: the smallest of those that lie idle. Where none is large enough, all that
  /// lie idle are freed first.
  PlaneValues take(std::size_t count);
  void give_back(PlaneValues values);
  /// Frees what lies idle where it is more.
  void keep_at_most(std::size_t bytes);

 private:
  static constexpr std::size_t kMostIdle = 16;  // what more is given back is freed

  std::mutex mutex_;
  std::vector<PlaneValues> idle_;
};

/// Values of all cells of a grid, channels last: [rows, columns, channels].
class Plane {
 public:
  /// Values that are not set. memory: where they come from, and go; null: the system.
  explicit Plane(const PlaneSize& size, PlaneMemory* memory = nullptr);
  /// Of another size, from the same memory.
  Plane like(const PlaneSize& size) const { return Plane(size, memory_); }

  const PlaneSize& size() const { return size_; }
  std::span<float> values() { return {values_.get(), size_.values()}; }
  std::span<const float> values() const { return {values_.get(), size_.values()}; }
  std::vector<float> copy() const { return {values_.get(), values_.get() + size_.values()}; }

 private:
  PlaneSize size_;
  PlaneMemory* memory_;
  PlaneValues values_;
};

}  // namespace talon
