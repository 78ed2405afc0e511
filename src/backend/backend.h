#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/fence.h"
#include "backend/memory.h"
#include "backend/operations.h"
#include "backend/traits.h"

namespace talon {

/// Where a model lives and computes: its memory, what goes in and out of it, and Operations on one
/// in-order stream. Only download(), Fence::wait() and synchronize() wait. One caller at a time.
/// Wrong shapes are bugs (expects); running out of memory throws Error.
class Backend : public Operations {
 public:
  virtual std::string_view name() const = 0;
  /// Kernels chosen, threads: for `talon inspect --machine`.
  virtual std::string description() const = 0;
  virtual BackendTraits traits() const = 0;
  /// Most threads that compute, the caller's included: what prepares data for it takes no more.
  virtual int threads() const = 0;
  /// Whether other programs slowed the last operations, or it works on fewer threads for their
  /// sake: then times say little of a machine at rest.
  virtual bool is_disturbed() const { return false; }

  virtual Buffer allocate(int rows, int cols) = 0;  // zeroed
  virtual IndexBuffer allocate_indices(int count) = 0;
  virtual std::unique_ptr<Weight> load_weight(const StoredMatrix& matrix, WeightLayout layout) = 0;
  virtual std::unique_ptr<KvStore> allocate_kv(const KvShape& shape) = 0;

  /// `from` may change as soon as the call returns; a matrix is rows * cols values, dense.
  virtual void upload(std::span<const float> from, const View& to) = 0;
  virtual void upload(std::span<const std::int32_t> from, const Indices& to) = 0;
  /// `to` stays where it is and is not read before the fence.
  virtual Fence download_async(const View& from, std::span<float> to) = 0;
  virtual Fence download_async(const Indices& from, std::span<std::int32_t> to) = 0;
  void download(const View& from, std::span<float> to) { download_async(from, to).wait(); }
  void download(const Indices& from, std::span<std::int32_t> to) {
    download_async(from, to).wait();
  }

  /// Calls `body`, or does at once what a call of it with the same key did. REQUIRES: with one key,
  /// the same operations on the same views, weights and caches; what varies lies in their memory,
  /// in Indices and in a PreparedLayout of as many rows, all made before. `body` does not wait.
  virtual void replay(const ReplayKey& key, const std::function<void()>& body) = 0;
  /// Waits until all operations so far are done.
  virtual void synchronize() = 0;
};

}  // namespace talon
