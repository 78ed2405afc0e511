#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backend/arguments.h"
#include "backend/fence.h"
#include "backend/memory.h"
#include "backend/traits.h"

namespace talon {

/// A closed set of coarse operations on one in-order stream, so that models and heads are written
/// once and a backend that forgets an operation does not compile. Only download(), Fence::wait()
/// and synchronize() wait.
///
/// Contract (row-exactness, docs/design.md): row i of a result depends on row i of the inputs only,
/// to the bit, however many rows share the call and whatever they hold, and whatever the number of
/// threads. One caller at a time. Wrong shapes are bugs (expects), as are indices out of range;
/// running out of memory throws Error.
class Backend {
 public:
  virtual ~Backend() = default;
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

  virtual void embed(const Weight& table, const Indices& tokens, const View& out) = 0;
  virtual void linear(const LinearArgs& args) = 0;
  /// Several at once: none reads what another writes.
  virtual void linear_all(std::span<const LinearArgs> calls) = 0;
  virtual void route(const RouteArgs& args) = 0;
  /// Reads the weights of the experts that any row goes to, each once for all of its rows.
  virtual void experts(const ExpertArgs& args) = 0;
  virtual void rms_norm(const View& x, const View& weight, float epsilon, const View& out) = 0;
  /// bias: [1, cols] or empty.
  virtual void layer_norm(const View& x, const View& weight, const View& bias, float epsilon,
                          const View& out) = 0;
  virtual void add(const View& a, const View& b, const View& out) = 0;  // out may be a or b
  /// out = a + factor * b. out may be a or b.
  virtual void add_scaled(const View& a, const View& b, float factor, const View& out) = 0;
  virtual void scale(const View& x, float factor) = 0;  // in place
  /// x = factors * x, in place. factors: [rows, 1].
  virtual void scale_rows(const View& x, const View& factors) = 0;
  /// x = cap * tanh(x / cap), in place. REQUIRES: cap > 0.
  virtual void soft_cap(const View& x, float cap) = 0;
  virtual void activate(const View& x, Activation function) = 0;  // in place
  virtual void copy(const View& from, const View& to) = 0;  // also the parts of a concatenation
  virtual void gather_rows(const View& from, const Indices& rows, const View& to) = 0;
  virtual void scatter_rows(const View& from, const Indices& rows, const View& to) = 0;

  /// `layout` and the page lists it borrows stay as they are while the result is in use.
  virtual std::unique_ptr<PreparedLayout> prepare(const AttentionLayout& layout) = 0;
  /// Norms and rotates q and k, norms v, writes k and v of every row into the cache, then attends.
  /// Rows may see each other through the cache; a row never sees a row that is not on its list.
  virtual void attention(const AttentionArgs& args) = 0;
  /// Runs `layout`'s rows through a layer with a state; states that it says are written.
  virtual void recurrent(const RecurrentArgs& args) = 0;
  /// Copies whole cache rows, all layers: slot from[i] to slot to[i], as if all were read before
  /// any is written.
  virtual void copy_kv(KvStore& cache, const Indices& from, const Indices& to) = 0;

  virtual void softmax(const View& logits, float temperature, const View& out) = 0;
  /// Per row the index of its largest value, the smallest of equals, passing over NaN; and that
  /// value, or NaN if the row holds one, so that a finite one vouches for the row. largest: [rows,
  /// 1].
  virtual void argmax(const View& x, const Indices& best, const View& largest) = 0;
  /// Per row the k largest values, descending, ties by smaller index. values: [rows, k], indices:
  /// row after row.
  virtual void top_k(const View& x, int k, const View& values, const Indices& indices) = 0;

  /// Calls `body`, or does at once what a call of it with the same key did. REQUIRES: with one key,
  /// the same operations on the same views, weights and caches; what varies lies in their memory,
  /// in Indices and in a PreparedLayout of as many rows, all made before. `body` does not wait.
  virtual void replay(const ReplayKey& key, const std::function<void()>& body) = 0;
  /// Waits until all operations so far are done.
  virtual void synchronize() = 0;
};

}  // namespace talon
