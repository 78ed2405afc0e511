#pragma once

#include <cstddef>

#include "backend/memory.h"

namespace talon {

struct BackendTraits {
  std::size_t memory_bytes = 0;  // its own, for weights, caches and activations; 0: the host's, and
                                 // what it has finished can be read in place
  double wait_us = 0;            // what a wait costs beside the work waited for
  bool row_exact = true;         // keeps the contract below; else answers may depend on drafts
  KvType cache = KvType::f16;    // the fastest whose error is small beside that of its products
};

/// What one recording of a device stands for.
struct ReplayKey {
  const void* owner = nullptr;
  int rows = 0;
};

}  // namespace talon
