#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "io/storage_type.h"

namespace talon {

/// A borrowed row-major matrix of float32 in a backend's memory. `data` is a device address: only a
/// backend may read it.
struct View {
  float* data = nullptr;
  int rows = 0;
  int cols = 0;
  int stride = 0;  // floats from one row to the next

  View row_range(int first, int count) const {
    return {data + static_cast<std::ptrdiff_t>(first) * stride, count, cols, stride};
  }
  View col_range(int first, int count) const { return {data + first, rows, count, stride}; }
  explicit operator bool() const { return data != nullptr; }
};

/// Owner of backend memory; freed with it.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  /// All of it as one matrix, stride == cols.
  virtual View view() const = 0;
};

/// A matrix as a file stores it: [rows = outputs, cols = inputs], borrowed for the time of the
/// call.
struct StoredMatrix {
  std::string name;  // for messages
  StorageType type = StorageType::f32;
  int rows = 0;
  int cols = 0;
  std::span<const std::byte> bytes;
  std::span<const std::int32_t> row_order =
      {};  // row i of the weight is stored row row_order[i]; empty: as stored
};

/// How weights are kept. `as_stored`: the smallest layout that reproduces every value exactly, else
/// exactly dequantised. The others round to that layout, which the user asked for (`--weights`).
enum class WeightLayout { as_stored, int8, int4, bf16, f32 };

/// A matrix in the layout of one backend. Immutable; made once at load.
class Weight {
 public:
  virtual ~Weight() = default;
  int rows = 0;           // outputs
  int cols = 0;           // inputs
  std::size_t bytes = 0;  // memory it takes, which is what one read of it costs
  std::string layout;     // "int4 groups of 32, f16 scale and minimum", ... for `talon inspect`
  bool exact = true;      // every value equals the stored one
};

/// Keys and values of all sequences, in pages of kPageRows positions. Row r of page p of layer l is
/// addressed by the slot number p * kPageRows + r, the same in all layers.
inline constexpr int kPageRows = 64;
enum class KvType { f32, f16 };
struct KvShape {
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int pages = 0;
  KvType type = KvType::f16;
};
class KvStore {
 public:
  virtual ~KvStore() = default;
  KvShape shape;
  std::size_t bytes = 0;
};
std::size_t kv_page_bytes(const KvShape& shape);  // of one page over all layers, keys and values

using PageId = std::int32_t;
using Slot = std::int32_t;

/// What row i of a batch sees in the cache: logical positions 0 .. position. The first `contiguous`
/// of them lie in the pages of its sequence in order (logical position j in slot pages[j /
/// kPageRows] * kPageRows + j % kPageRows), the others in the slots extra[extra_begin ..
/// extra_begin + position + 1 - contiguous), in order. The row itself is the last one. A prompt row
/// or chain row has extra empty; a tree node lists its ancestors after the committed text, then
/// itself.
struct AttentionRow {
  std::int32_t sequence = 0;  // index into AttentionLayout::pages
  std::int32_t position = 0;  // RoPE position = number of visible keys - 1
  Slot slot = 0;              // where this row's own key and value are written
  std::int32_t contiguous = 0;
  std::int32_t extra_begin = 0;
};
struct AttentionLayout {
  std::vector<AttentionRow> rows;
  std::vector<Slot> extra;
  std::vector<std::span<const PageId>> pages;  // per sequence
};

struct AttentionArgs {
  View q;    // [rows, heads * head_dim], before norm and rotation; overwritten
  View k;    // [rows, kv_heads * head_dim], likewise
  View v;    // [rows, kv_heads * head_dim]
  View out;  // [rows, heads * head_dim]
  KvStore* cache = nullptr;
  int layer = 0;
  const AttentionLayout* layout = nullptr;
  View rope;  // [positions, head_dim]: cos of head_dim / 2 frequencies, then sin; half-split pairs
              // (i, i + d/2)
  View q_norm, k_norm;  // [1, head_dim] RMSNorm weights of Qwen3, or empty
  float norm_epsilon = 0;
  float scale = 0;  // of the dot products, usually 1 / sqrt(head_dim)
  int window = 0;   // sees the last `window` positions only; 0: all
};

/// What happens to the input of linear() on its way in.
enum class InputTransform {
  none,
  rms_norm,   // x / rms(x) * norm
  silu_gate,  // input is [rows, 2 * cols]: silu(first half) * second half
};
struct Projection {
  const Weight* weight = nullptr;
  View out;                 // [rows, weight->rows]
  View bias = {};           // [1, weight->rows] or empty
  bool accumulate = false;  // out += instead of out =
};
struct LinearArgs {
  View input;  // [rows, cols], or [rows, 2 * cols] with silu_gate
  InputTransform transform = InputTransform::none;
  View norm = {};  // [1, cols], for rms_norm
  float norm_epsilon = 0;
  std::span<const Projection> outputs;  // all read the same transformed input
  bool rough = false;  // a guess follows: the least exact inputs the backend has will do
};

/// A closed set of coarse operations on one in-order stream, so that models and heads are written
/// once and a backend that forgets an operation does not compile. Only download() and the calls
/// that return values wait.
///
/// Contract (row-exactness): row i of a result depends on row i of the inputs only, to the bit,
/// however many rows share the call and whatever they hold, and whatever the number of threads
/// (DESIGN 4). One caller at a time. Wrong shapes are bugs (expects); running out of memory throws
/// Error.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  virtual std::string description()
      const = 0;  // kernels chosen, threads: for `talon inspect --machine`

  virtual std::unique_ptr<DeviceBuffer> allocate(int rows, int cols) = 0;  // zeroed
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

/// Scalar, double sums, dequantised weights: slow and obviously right. Threads only split
/// independent results.
std::unique_ptr<Backend> make_reference_backend(int threads);

/// How the CPU rounds the inputs of int8 and int4 weights, in groups of 32 that share a scale: to 8
/// bits; to 16, nearly float32 at two products in place of one; or to 16 only in the few groups of
/// a row whose values are far larger than the others', since those make most of the error. With 8
/// bits and mixed, inputs of bf16 weights are rounded to bf16; with 16, all float weights have
/// float32 inputs.
enum class Activations { bits8, mixed, bits16 };
/// "8", "mixed" or "16".
std::string_view name_of(Activations activations);

enum class CpuKernels { best, portable, avx2, avx512_vnni, avx512_bf16, amx };
struct CpuOptions {
  int threads = 0;  // 0: all processors this process may use
  CpuKernels kernels = CpuKernels::best;
  Activations activations = Activations::bits8;
  bool pin = true;
};
/// Throws UsageError if this machine lacks the kernels asked for.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

/// weights[i] = e^((logits[i] - largest) / temperature) with a relative error below 1e-15, exactly
/// 1 for the largest logit and 0 where the exponent is below -708: what a token is drawn by. On the
/// host, with the best instructions it has; the same bytes on every one. REQUIRES: no NaN,
/// `largest` finite, temperature > 0, as many weights as logits.
void token_weights(std::span<const float> logits, float largest, double temperature,
                   std::span<double> weights);

struct Mismatch {
  std::string operation;
  double largest_difference = 0;
  double scale = 0;  // root mean square of the expected values
};
/// Runs every operation on `backend` and, with the same inputs, on `reference`; reports each whose
/// outputs differ by more than `tolerance` times the root mean square of the expected row. Results
/// are those of `backend`. Owns both.
class CheckingBackend : public Backend {
 public:
  virtual const std::vector<Mismatch>& mismatches() const = 0;
};
std::unique_ptr<CheckingBackend> make_checking_backend(std::unique_ptr<Backend> backend,
                                                       std::unique_ptr<Backend> reference,
                                                       double tolerance);

struct TraceEntry {
  std::string operation;
  int rows = 0;
  double ms = 0;
  std::size_t weight_bytes = 0;  // read by it
};
/// Times every operation of `backend`. Owns it.
class TracingBackend : public Backend {
 public:
  virtual std::span<const TraceEntry> entries() const = 0;
  virtual void clear() = 0;
};
std::unique_ptr<TracingBackend> make_tracing_backend(std::unique_ptr<Backend> backend);

}  // namespace talon
