#pragma once

#include <cstdlib>

#include "fuzz_target.h"
#include "io/checkpoint.h"
#include "io/tensor_layout.h"

namespace talon::fuzz {

/// Parses `bytes` and, if they are accepted, does what users of a checkpoint do: trusts shapes
/// against bytes, reads them all.
inline void check_checkpoint(Checkpoint (*parse)(std::span<const std::byte>,
                                                 const std::filesystem::path&),
                             std::span<const std::byte> bytes) {
  run([&] {
    const Checkpoint checkpoint = parse(bytes, "fuzz");
    std::vector<float> values;
    for (const StoredTensor& tensor : checkpoint.tensors) {
      if (stored_bytes(tensor.type, tensor.shape) != tensor.bytes.size()) std::abort();
      const BlockShape block = block_shape(tensor.type);
      values.resize(tensor.bytes.size() / block.bytes * block.elements);
      dequantize(tensor.type, tensor.bytes, values);
    }
  });
}

}  // namespace talon::fuzz
