#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/arguments.h"
#include "backend/memory.h"
#include "core/types.h"

namespace talon {

/// A closed set of coarse operations on one in-order stream, so that models and heads are written
/// once and a backend that forgets an operation does not compile. Only download() and the calls
/// that return values wait.
///
/// Contract (row-exactness, docs/design.md): row i of a result depends on row i of the inputs only,
/// to the bit, however many rows share the call and whatever they hold, and whatever the number of
/// threads. One caller at a time. Wrong shapes are bugs (expects); running out of memory throws
/// Error.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Kernels chosen, threads: for `talon inspect --machine`.
  virtual std::string description() const = 0;

  virtual Buffer allocate(int rows, int cols) = 0;  // zeroed
  virtual std::unique_ptr<Weight> load_weight(const StoredMatrix& matrix, WeightLayout layout) = 0;
  virtual std::unique_ptr<KvStore> allocate_kv(const KvShape& shape) = 0;

  virtual void upload(std::span<const float> from, const View& to) = 0;  // from: rows * cols, dense
  virtual void download(const View& from, std::span<float> to) = 0;      // waits

  virtual void embed(const Weight& table, std::span<const TokenId> tokens, const View& out) = 0;
  virtual void linear(const LinearArgs& args) = 0;
  virtual void rms_norm(const View& x, const View& weight, float epsilon, const View& out) = 0;
  virtual void add(const View& a, const View& b, const View& out) = 0;  // out may be a or b
  virtual void silu_gate(const View& gate, const View& up, const View& out) = 0;
  virtual void copy(const View& from, const View& to) = 0;  // also the parts of a concatenation
  virtual void gather_rows(const View& from, std::span<const std::int32_t> rows,
                           const View& to) = 0;
  virtual void scatter_rows(const View& from, std::span<const std::int32_t> rows,
                            const View& to) = 0;

  /// Rotates q and k (after their norms, if any), writes k and v of every row into the cache, then
  /// attends. Rows may see each other through the cache; a row never sees a row that is not on its
  /// list.
  virtual void attention(const AttentionArgs& args) = 0;
  /// Copies whole cache rows, all layers: slot from[i] to slot to[i], as if all were read before
  /// any is written.
  virtual void copy_kv(KvStore& cache, std::span<const Slot> from, std::span<const Slot> to) = 0;

  virtual void softmax(const View& logits, float temperature, const View& out) = 0;
  /// Per row the index of the largest value (the smallest such index). Waits.
  virtual void argmax(const View& x, std::span<TokenId> out) = 0;
  /// Per row the k largest values, descending, ties by smaller index. values, indices: [rows * k].
  /// Waits.
  virtual void top_k(const View& x, int k, std::span<float> values, std::span<TokenId> indices) = 0;

  /// Waits until all operations so far are done.
  virtual void synchronize() = 0;
};

}  // namespace talon
