#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/checkpoint.h"
#include "model/config/quantization.h"

namespace talon {

/// A matrix, or a stack of them, that is put together from several tensors of a folder.
struct MadeOutline {
  std::string name;                     // as the loader asks for it
  StorageType type = StorageType::f32;  // the smallest that it may become
  std::uint64_t values = 0;
  bool is_stack = false;
};

/// What becomes of the matrix whose codes `tensor` holds: by make_quantized(), or by the loader of
/// experts where they are gpt-oss's blocks. Looks at types, shapes and the order of groups, but not
/// at all codes. Nothing for plain numbers, and for what stands beside codes.
std::optional<MadeOutline> outline_of_made(const StoredTensor& tensor, const Checkpoint& folder,
                                           const std::optional<Quantization>& quantization);

}  // namespace talon
