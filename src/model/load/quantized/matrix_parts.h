#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"

namespace talon {

using TensorShape = std::vector<std::int64_t>;

/// The tensors of a folder that stand for one matrix, or for a stack of them. Each is looked at
/// before it is read; an Error names the folder, the tensor, what was expected and what was found.
/// Borrows the folder.
class MatrixParts {
 public:
  /// `stem`: what the names of all parts begin with.
  MatrixParts(const Checkpoint& folder, std::string stem);

  bool has(std::string_view part) const;
  StorageType type_of(std::string_view part) const { return require(part).type; }
  const StoredTensor& tensor(std::string_view part, const TensorShape& shape) const;
  std::span<const std::byte> bytes(std::string_view part, StorageType type,
                                   const TensorShape& shape) const;
  /// Those of matrix `index` of the `count` of a stack.
  std::span<const std::byte> bytes_of_one(std::string_view part, StorageType type,
                                          const TensorShape& shape, int count, int index) const;
  std::vector<std::uint32_t> words(std::string_view part, const TensorShape& shape) const;
  /// Those of matrix `index` of the `count` of a stack.
  std::vector<std::uint32_t> words_of_one(std::string_view part, const TensorShape& shape,
                                          int count, int index) const;
  /// Numbers of type i8; whatever shape of those listed it has.
  std::vector<std::int8_t> bytes_of(std::string_view part,
                                    const std::vector<TensorShape>& shapes) const;
  /// Text in bytes, [length].
  std::string_view text(std::string_view part) const;
  /// Finite numbers of a floating-point type.
  std::vector<float> numbers(std::string_view part, const TensorShape& shape) const;
  /// Whatever shape of those listed it has.
  std::vector<float> numbers_of(std::string_view part,
                                const std::vector<TensorShape>& shapes) const;
  /// The same of a tensor that has as many values for each of the `count` matrices of a stack, or
  /// one value for all: those of matrix `index`.
  std::vector<float> numbers_of_one(std::string_view part, const std::vector<TensorShape>& shapes,
                                    int count, int index) const;

  /// The folder and the part, as messages name them.
  std::string place_of(std::string_view part) const;
  [[noreturn]] void refuse(std::string_view part, std::string_view expected,
                           std::string_view found) const;
  /// Refuses the matrix for a number.
  [[noreturn]] void refuse(std::string_view expected, long found) const;

 private:
  const StoredTensor& require(std::string_view part) const;
  std::vector<float> finite(std::string_view part, const StoredTensor& tensor, std::size_t first,
                            std::size_t count) const;

  const Checkpoint& folder_;
  std::string stem_;
};

}  // namespace talon
