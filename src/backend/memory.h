#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/storage_type.h"

namespace talon {

/// A borrowed row-major matrix of float32 in a backend's memory. `data` is a device address: only a
/// backend may read it, unless its memory is the host's (BackendTraits::memory_bytes).
struct View {
  float* data = nullptr;
  int rows = 0;
  int cols = 0;
  int stride = 0;  // floats from one row to the next

  /// Where row `index` begins.
  float* row(int index) const { return data + static_cast<std::ptrdiff_t>(index) * stride; }
  View row_range(int first, int count) const { return {row(first), count, cols, stride}; }
  View col_range(int first, int count) const { return {data + first, rows, count, stride}; }
  explicit operator bool() const { return data != nullptr; }
};

/// Borrowed int32 numbers in a backend's memory: tokens, rows, slots. `data` is a device address:
/// only a backend may read it.
struct Indices {
  std::int32_t* data = nullptr;
  int count = 0;

  Indices range(int first, int size) const { return {data + first, size}; }
};

/// Memory of one backend; freed with it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
};

/// Owner of a matrix in a backend's memory; what is empty gives an empty View.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const View& view, std::unique_ptr<DeviceMemory> memory)
      : view_(view), memory_(std::move(memory)) {}

  /// All of it, stride == cols.
  View view() const { return memory_ ? view_ : View{}; }
  /// The first `count` rows. REQUIRES: not empty.
  View rows(int count) const { return view_.row_range(0, count); }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  View view_;
  std::unique_ptr<DeviceMemory> memory_;
};

/// Owner of numbers in a backend's memory.
class IndexBuffer {
 public:
  IndexBuffer() = default;
  IndexBuffer(const Indices& indices, std::unique_ptr<DeviceMemory> memory)
      : indices_(indices), memory_(std::move(memory)) {}

  int size() const { return memory_ ? indices_.count : 0; }
  /// The first `count`. REQUIRES: count <= size().
  Indices first(int count) const { return indices_.range(0, count); }

 private:
  Indices indices_;
  std::unique_ptr<DeviceMemory> memory_;
};

/// A matrix as a file stores it: [rows = outputs, cols = inputs], borrowed for the time of the
/// call.
struct StoredMatrix {
  std::string name;  // for messages
  StorageType type = StorageType::f32;
  int rows = 0;
  int cols = 0;
  std::span<const std::byte> bytes;
  // Row i of the weight is stored row row_order[i]; empty: as stored.
  std::span<const std::int32_t> row_order = {};
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
using PageId = std::int32_t;
using Slot = std::int32_t;
/// f32 and f16: attention computes in float32. bf16: in products of bf16 pairs, so that queries and
/// weights are rounded, too.
enum class KvType { f32, f16, bf16 };
inline constexpr std::array kKvTypes = {KvType::bf16, KvType::f16, KvType::f32};
std::string_view name_of(KvType type);  // "f16"
std::size_t bytes_of(KvType type);      // of a value
/// Of one layer of a cache.
struct KvWidth {
  int kv_heads = 0;
  int key_dim = 0;
  int value_dim = 0;

  int key_cols() const { return kv_heads * key_dim; }
  int value_cols() const { return kv_heads * value_dim; }
  bool operator==(const KvWidth&) const = default;
};
/// How a row changes the state of its layer (RecurrentArgs).
enum class StateRule { gated_delta, mamba2, short_convolution };
/// The states of a model's recurrent layers, all alike (RecurrentArgs).
struct StateShape {
  int layers = 0;
  int slots = 0;  // a slot holds the states of all layers behind one text
  int key_heads = 0, value_heads = 0;
  int key_dim = 0, value_dim = 0;
  int kernel = 0;  // inputs of the convolution
  StateRule rule = StateRule::gated_delta;

  int values() const { return value_heads * value_dim; }
  int keys() const { return key_heads * key_dim; }
  bool is_convolution() const { return rule == StateRule::short_convolution; }
  /// q, k, v of all heads; of Mamba-2 v, k, q; of a short convolution v of its one head.
  int channels() const { return 2 * keys() + values(); }
  int first_query() const { return rule == StateRule::mamba2 ? values() + keys() : 0; }
  int first_key() const { return rule == StateRule::mamba2 ? values() : keys(); }
  int first_value() const { return rule == StateRule::mamba2 ? 0 : 2 * keys(); }
  /// Numbers of a value head that say what a row writes and keeps.
  int gates() const { return rule == StateRule::mamba2 ? 1 : 2; }
  int input_cols() const {
    return is_convolution() ? 2 * channels() : channels() + gates() * value_heads;
  }
  int state_values() const { return value_heads * key_dim * value_dim; }
  int tail_values() const { return (kernel - 1) * channels(); }
  std::size_t slot_bytes() const {
    return static_cast<std::size_t>(layers) * sizeof(float) *
           (static_cast<std::size_t>(state_values()) + static_cast<std::size_t>(tail_values()));
  }
};
/// The layers of a cache whose rows see the last positions only: keys and values out of their reach
/// need no memory. They lie in a store of their own.
struct NearShape {
  int reach = 0;  // a row sees so many positions at most, its own among them
  int pages = 0;
  double share = 1;             // pages for each page of the other layers
  std::vector<bool> layers;     // whether a layer of the cache is one of these; empty: none is
  std::vector<KvWidth> widths;  // of these
};
struct KvShape {
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int pages = 0;
  KvType type = KvType::f16;
  std::vector<KvWidth> widths = {};  // of each layer; empty: all as the two fields above say
  StateShape states = {};            // no part of the store: allocated as matrices
  NearShape near = {};               // no part of the store: further layers, in another

  KvWidth width(int layer) const {
    return widths.empty() ? KvWidth{kv_heads, head_dim, head_dim}
                          : widths[static_cast<std::size_t>(layer)];
  }
};
class KvStore {
 public:
  virtual ~KvStore() = default;
  KvShape shape;
  std::size_t bytes = 0;
};
/// Of one page over all layers of the store, keys and values; of its near layers.
std::size_t kv_page_bytes(const KvShape& shape);
std::size_t near_page_bytes(const KvShape& shape);

}  // namespace talon
