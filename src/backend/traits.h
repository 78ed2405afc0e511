#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "backend/memory.h"

namespace talon {

struct BackendTraits {
  std::size_t memory_bytes = 0;  // its own, for weights, caches and activations; 0: the host's, and
                                 // what it has finished can be read in place
  double wait_us = 0;            // what a wait costs beside the work waited for
  KvType cache = KvType::f16;    // the fastest whose error is small beside that of its products
};

/// What one recording of a device stands for.
struct ReplayKey {
  std::uint64_t owner = 0;  // of new_replay_owner(): an address may come again, with other memory
  int rows = 0;
  int variant = 0;  // as the owner numbers calls of so many rows that differ in their views
  auto operator<=>(const ReplayKey&) const = default;
};
inline std::uint64_t new_replay_owner() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

}  // namespace talon
