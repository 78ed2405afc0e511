#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "backend/backend.h"
#include "core/thread_pool.h"
#include "draft/head/head_tensors.h"

namespace talon {

/// Brings the tensors of a head onto a backend, after a look at their types and values. Shapes must
/// have been checked before. Borrows both.
class WeightReader {
 public:
  WeightReader(const HeadTensors& tensors, Backend& backend);

  /// A tensor of floating-point numbers that are all finite. Throws Error naming it if it is not.
  const StoredTensor& checked(std::string_view name);
  /// Row i is stored row row_order[i]; empty: as stored.
  std::unique_ptr<Weight> matrix(std::string_view name, WeightLayout layout,
                                 std::span<const std::int32_t> row_order = {});
  /// One row of all values. Null unless it should be `present`. Value i is stored value order[i],
  /// and there are as many as `order` has; empty: as stored.
  Buffer vector(std::string_view name, bool present = true,
                std::span<const std::int32_t> order = {});
  Buffer upload(std::span<const float> values, int rows, int cols);

 private:
  const HeadTensors& tensors_;
  Backend& backend_;
  ThreadPool pool_;
};

}  // namespace talon
