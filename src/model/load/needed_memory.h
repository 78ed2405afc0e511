#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/memory.h"
#include "io/checkpoint.h"
#include "model/config/config.h"

namespace talon {

/// Bytes that so many values of a matrix take at least in a backend's memory.
std::size_t least_bytes(StorageType type, WeightLayout layout, std::uint64_t values);

/// Bytes that the matrices of a model's layers, its table and its outputs take for sure once they
/// are loaded: no more than they then have, so that no model is refused that fits. Matrices that
/// are put together count as what they become at least. Those of the files, which are mapped, do
/// not count.
std::size_t least_weight_bytes(const Checkpoint& checkpoint, const ModelConfig& config,
                               WeightLayout layout);

}  // namespace talon
