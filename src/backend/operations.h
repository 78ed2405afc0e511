#pragma once

#include <memory>
#include <span>

#include "backend/arguments.h"
#include "backend/memory.h"
#include "sample/race.h"

namespace talon {

/// A closed set of coarse operations, so that models and heads are written once and a backend that
/// forgets an operation does not compile. All are queued on the backend's one stream; none waits.
///
/// Contract (row-exactness, docs/design.md): row i of a result depends on row i of the inputs only,
/// to the bit, however many rows share the call and whatever they hold, and whatever the number of
/// threads. Wrong shapes are bugs (expects), as are indices out of range.
class Operations {
 public:
  virtual ~Operations() = default;

  virtual void embed(const Weight& table, const Indices& tokens, const View& out) = 0;
  virtual void linear(const LinearArgs& args) = 0;
  /// Several at once: none reads what another writes.
  virtual void linear_all(std::span<const LinearArgs> calls) = 0;
  virtual void route(const RouteArgs& args) = 0;
  /// Reads the weights of the experts that any row goes to, each once for all of its rows.
  virtual void experts(const ExpertArgs& args) = 0;
  /// counts[i] += how many experts of row i no earlier row of the call goes to: what experts()
  /// reads for it. ids: as of route(), below `experts`. counts: one for each row.
  virtual void count_first_uses(const Indices& ids, int experts, const Indices& counts) = 0;
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
  /// Per row the winner of its race (sample/race.h) and, as argmax(), what vouches for the row:
  /// without a finite one the winner is any token. draws: one for each row.
  virtual void race(const View& logits, std::span<const RaceDraw> draws, const Indices& winners,
                    const View& largest) = 0;
  /// Row i of out is noise[i] for each token of the list, or for tokens 0, 1, ... where it is
  /// empty, to about 1e-5 of its scale (fill_gumbel).
  virtual void gumbel(std::span<const GumbelNoise> noise, const Indices& tokens,
                      const View& out) = 0;
  /// Per row the k largest values, descending, ties by smaller index. values: [rows, k], indices:
  /// row after row.
  virtual void top_k(const View& x, int k, const View& values, const Indices& indices) = 0;
};

}  // namespace talon
