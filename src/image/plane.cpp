#include "image/plane.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace talon {
namespace {

constexpr std::align_val_t kPlaneAlignment{64};

PlaneValues new_values(std::size_t count, PlaneMemory* memory) {
  void* const values = ::operator new(count * sizeof(float), kPlaneAlignment);
  return PlaneValues(static_cast<float*>(values), GiveBackValues{memory, count});
}

}  // namespace

void GiveBackValues::operator()(float* values) const {
  if (memory != nullptr) {
    memory->give_back(PlaneValues(values, GiveBackValues{nullptr, count}));
  } else {
    ::operator delete(values, kPlaneAlignment);
  }
}

PlaneValues PlaneMemory::take(std::size_t count) {
  {
    const std::lock_guard lock(mutex_);
    const auto usable = [&](const PlaneValues& values) {
      const std::size_t there = values.get_deleter().count;
      return there < count ? std::numeric_limits<std::size_t>::max() : there;
    };
    const auto smallest = std::ranges::min_element(idle_, {}, usable);
    if (smallest != idle_.end() && smallest->get_deleter().count >= count) {
      PlaneValues found = std::move(*smallest);
      idle_.erase(smallest);
      found.get_deleter().memory = this;
      return found;
    }
    idle_.clear();
  }
  return new_values(count, this);
}

void PlaneMemory::give_back(PlaneValues values) {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kMostIdle) idle_.push_back(std::move(values));
}

void PlaneMemory::keep_at_most(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::size_t all = 0;
  for (const PlaneValues& values : idle_) all += values.get_deleter().count * sizeof(float);
  if (all > bytes) idle_.clear();
}

Plane::Plane(const PlaneSize& size, PlaneMemory* memory)
    : size_(size),
      memory_(memory),
      values_(memory != nullptr ? memory->take(size.values())
                                : new_values(size.values(), nullptr)) {}

}  // namespace talon
