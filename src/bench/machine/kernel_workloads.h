#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/backend.h"

namespace talon {

/// A model whose layers give the shapes of a measurement; its weights are made up.
struct KernelModel {
  std::string_view name;
  int layers;
  int hidden;
  int intermediate;
  int heads;
  int kv_heads;
  int head_dim;
  int vocabulary;
};
std::span<const KernelModel> kernel_models();

/// The calls that a forward makes of the backend, by the name of what they compute. `attention` is
/// attention(), the others are linear() with the transform and outputs of the model's block.
std::span<const std::string_view> kernel_operations();

/// Stored types of weights, those of the real models first.
std::span<const StorageType> kernel_formats();

/// One operation of one model with made-up weights, ready to be called with any number of rows.
class KernelWorkload {
 public:
  virtual ~KernelWorkload() = default;
  /// One call. Each reads other weights (or another layer's cache) than those before it, round a
  /// ring as large as was asked for, as the calls of a forward do.
  virtual void call(int rows) = 0;
  virtual double bytes(int rows) const = 0;  // that one call must read
  virtual double macs(int rows) const = 0;   // multiply-accumulates of numbers, not of planes
  virtual std::string layout() const = 0;    // of the weights or the cache in memory
};

/// Whether rows of the operation's weights are whole blocks of `format`. `operation` as below.
bool can_be_stored(const KernelModel& model, std::string_view operation, StorageType format);

/// REQUIRES: can_be_stored(). `operation` one of kernel_operations() without attention. `backend`
/// outlives the workload.
std::unique_ptr<KernelWorkload> make_linear_workload(Backend& backend, const KernelModel& model,
                                                     std::string_view operation, StorageType format,
                                                     int most_rows, std::size_t ring_bytes);

/// Rows that follow each other after `context` cached positions.
std::unique_ptr<KernelWorkload> make_attention_workload(Backend& backend, const KernelModel& model,
                                                        KvType type, int context, int most_rows,
                                                        std::size_t ring_bytes);

}  // namespace talon
