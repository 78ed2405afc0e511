#pragma once

#include <memory>

#include "backend/backend.h"

namespace talon {

/// Scalar, double sums, dequantised weights: slow and obviously right. Threads only split
/// independent results.
std::unique_ptr<Backend> make_reference_backend(int threads);

}  // namespace talon
