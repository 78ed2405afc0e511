#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convert/kept_weights.h"
#include "io/formats/write_gguf.h"

namespace talon {

/// A tensor of a GGUF to be: rows of what was loaded, one after the other.
struct GgufTensor {
  struct Part {
    const KeptWeight* weight = nullptr;
    std::vector<std::int32_t> rows = {};  // empty: all, in order
    float factor = 1;                     // of their values
  };
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<Part> parts;
  // Runs of columns of each row, in another order: run i is stored run column_order[i]. Empty: as
  // they are.
  std::vector<std::int32_t> column_order = {};
};

/// The smallest type that holds the values of all parts as they are stored; f32 for products with
/// factors that floating-point types do not hold exactly.
StorageType exact_type(const GgufTensor& tensor);

/// The type to store it in: that one, or what was asked for where the tensor is a matrix that
/// backends may round: not for norms, biases, routers. Rows that are no whole blocks of a quantised
/// type are stored as f16.
StorageType stored_type(const GgufTensor& tensor, std::optional<StorageType> asked);

/// Hands over the bytes of the tensor in `type` piece by piece. Throws Error naming the tensor for
/// a value that is too large for the type.
void for_each_piece(const GgufTensor& tensor, StorageType type,
                    const std::function<void(std::span<const std::byte>)>& take);

}  // namespace talon
