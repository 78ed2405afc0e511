#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/atomic_file.h"
#include "io/formats/tensor_to_write.h"
#include "io/json.h"

namespace talon {

/// Key-values in the order of the file.
using GgufMetadata = std::vector<std::pair<std::string, Json>>;

/// What a tensor will be.
struct TensorOutline {
  std::string name;
  StorageType type = StorageType::f32;  // one that GGUF has
  std::vector<std::int64_t> shape;      // outermost first, whole blocks
};

/// Writes a GGUF file whose tensors need not be in memory together. Errors as of write_gguf.
class GgufWriter {
 public:
  GgufWriter(const std::filesystem::path& file, const GgufMetadata& metadata,
             std::span<const TensorOutline> tensors);
  /// The next bytes of the tensors, which follow each other in the order of the outlines. A piece
  /// belongs to one tensor. REQUIRES: a tensor without bytes is not among them.
  void write(std::span<const std::byte> bytes);
  /// REQUIRES: all bytes of all tensors were written.
  void commit();

 private:
  void put(std::span<const std::byte> bytes);
  void flush();

  AtomicFile file_;
  std::vector<std::uint64_t> sizes_;  // bytes of each tensor
  std::size_t tensor_ = 0;            // being written
  std::uint64_t written_ = 0;         // of its bytes
  std::vector<std::byte> pending_;
};

/// Writes a GGUF file of version 3 that appears under its name only when it is whole (AtomicFile).
/// Texts, booleans and reals (f32) are written as such, signed integers as i32, unsigned ones as
/// u32, either with 64 bits where it must be; the elements of an array have one type. Throws Error
/// with the path and the system's reason, and naming a key whose value GGUF does not hold.
void write_gguf(const std::filesystem::path& file, const GgufMetadata& metadata,
                std::span<const TensorToWrite> tensors);

}  // namespace talon
