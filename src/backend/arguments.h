#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/memory.h"

namespace talon {

/// What row i of a batch sees in the cache: a list of `visible` keys. The first `contiguous` of
/// them lie in the pages of its sequence in order (key j in slot pages[j / kPageRows] * kPageRows +
/// j % kPageRows), the others in the slots extra[extra_begin .. extra_begin + visible -
/// contiguous), in order. A prompt row or chain row has extra empty; a tree node lists its
/// ancestors after the committed text, then itself. Slots of other rows of the same call may be
/// listed whatever their place in it: in a bidirectional block every row lists the whole block.
/// Equal lists give equal sums.
struct AttentionRow {
  std::int32_t sequence = 0;  // index into AttentionLayout::pages
  std::int32_t position = 0;  // row of AttentionArgs::rope; of text, visible - 1
  std::int32_t visible = 0;   // keys, usually with the row's own as the last
  Slot slot = 0;              // where this row's own key and value are written
  std::int32_t contiguous = 0;
  std::int32_t extra_begin = 0;
};
struct AttentionLayout {
  std::vector<AttentionRow> rows;
  std::vector<Slot> extra;
  std::vector<std::span<const PageId>> pages;  // per sequence
};

/// A layout where the backend wants it, for all layers of a forward (Backend::prepare).
class PreparedLayout {
 public:
  virtual ~PreparedLayout() = default;
  int rows = 0;
  int positions = 0;  // one more than the largest position
};

struct AttentionArgs {
  View q;    // [rows, heads * head_dim], before norm and rotation; overwritten
  View k;    // [rows, kv_heads * head_dim], likewise
  View v;    // [rows, kv_heads * head_dim]
  View out;  // [rows, heads * head_dim]
  KvStore* cache = nullptr;
  int layer = 0;
  const PreparedLayout* layout = nullptr;
  // [positions, head_dim]: cos of head_dim / 2 frequencies, then sin; half-split pairs (i, i + d/2)
  View rope;
  View q_norm, k_norm;  // [1, head_dim] RMSNorm weights of Qwen3, or empty
  float norm_epsilon = 0;
  float scale = 0;  // of the dot products, usually 1 / sqrt(head_dim)
  int window = 0;   // sees the last `window` keys of its list only; 0: all
};

/// A function of single values.
enum class Activation {
  silu,  // x / (1 + e^-x)
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

}  // namespace talon
