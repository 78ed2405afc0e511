#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "model/load/quantized/quantized_tensors.h"
#include "model/model.h"

namespace talon {

/// Which rows of a stored matrix or vector a weight takes.
struct StoredRows {
  int first = 0;
  int stored = 0;  // rows of the stored one; 0: as many as are taken
  std::span<const std::int32_t> order =
      {};  // rows taken, counted from `first`; empty: all in order
};

/// Brings tensors of a checkpoint into a backend's memory, after their types, shapes and values
/// have been looked at. Throws Error naming the tensor.
class TensorLoader {
 public:
  TensorLoader(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  bool has(const std::string& name) const { return checkpoint_.find(name) != nullptr; }
  /// Whether the tensor was looked at, itself or in parts that stand for it.
  bool was_read(const std::string& name) const { return read_.contains(name); }

  std::unique_ptr<Weight> matrix(const std::string& name, int rows, int cols,
                                 const StoredRows& part = {});
  /// One matrix of a stack [count, rows of the stored one, cols].
  std::unique_ptr<Weight> matrix_of_stack(const std::string& name, int count, int index, int rows,
                                          int cols, const StoredRows& part = {});
  /// The matrix as it is stored or as it was put together. Its bytes stay until another matrix is
  /// asked for by name.
  StoredMatrix stored_matrix(const std::string& name, int rows, int cols) {
    return stored_matrix(name, {.rows = rows, .cols = cols});
  }
  StoredMatrix stored_matrix(const std::string& name, const StackedMatrix& place);
  /// A matrix kept in float32, whose inputs no backend rounds.
  std::unique_ptr<Weight> float_matrix(const std::string& name, int rows, int cols,
                                       const StoredRows& part = {});
  /// A matrix whose values were put together from tensors that have been looked at.
  std::unique_ptr<Weight> made_matrix(const StoredMatrix& matrix);
  std::unique_ptr<Weight> made_float_matrix(const StoredMatrix& matrix);
  Buffer vector(const std::string& name, int size, const StoredRows& part = {}, float add = 0);
  std::vector<float> values(const std::string& name, std::vector<std::int64_t> shape);
  Buffer upload(std::span<const float> values, int rows, int cols);
  /// The tensor, after its type, its shape and its values have been looked at.
  const StoredTensor& checked(const std::string& name, const std::vector<std::int64_t>& shape);

  /// Of all matrices so far.
  std::size_t weight_bytes() const { return weight_bytes_; }
  /// Back to `bytes`: what came since is not read by a forward.
  void forget_weight_bytes(std::size_t bytes) { weight_bytes_ = bytes; }
  void report_end();

 private:
  std::unique_ptr<Weight> load(const StoredMatrix& matrix, WeightLayout layout);
  StoredMatrix stored(const std::string& name, int count, int index, int rows, int cols,
                      const StoredRows& part);
  /// Puts the matrix together, where it is stored in parts.
  bool make(const std::string& name, const StackedMatrix& place);
  void refuse_parts_of(const std::string& name) const;
  /// What a GGUF file says that a matrix is to be multiplied by.
  std::optional<float> factor_of(const std::string& name, int count, int index);
  void multiply(const StoredTensor& tensor, std::size_t first, std::size_t rows, float factor);

  const Checkpoint& checkpoint_;
  Backend& backend_;
  const LoadOptions& options_;
  ThreadPool pool_;
  std::optional<Quantization> quantization_;  // of a folder that says so
  MadeMatrix made_;                           // the last that was put together
  std::string made_name_;                     // whose name that is
  std::size_t made_first_ = 0;                // of a stack, the first of its rows
  std::set<std::string, std::less<>> checked_;
  std::set<std::string, std::less<>> read_;  // these, and what was put together
  std::size_t weight_bytes_ = 0;
};

}  // namespace talon
