#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/input_transform.h"
#include "backend/memory.h"
#include "backend/recurrent.h"

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
  // For layers with states.
  std::vector<StateRun> runs;
  std::vector<StateRow> state_rows;
};

/// A layout where the backend wants it, for all layers of a forward (Backend::prepare).
class PreparedLayout {
 public:
  virtual ~PreparedLayout() = default;
  int rows = 0;
  int positions = 0;  // one more than the largest position
};

struct AttentionArgs {
  View q;  // [rows, heads * key_dim], before norm and rotation; overwritten
  // [rows, kv_heads * key_dim] and [rows, kv_heads * value_dim], before norm and rotation;
  // overwritten. Both empty: an earlier call has written the rows' keys and values.
  View k, v;
  View out;  // [rows, heads * value_dim]
  KvStore* cache = nullptr;
  int layer = 0;
  const PreparedLayout* layout = nullptr;
  // [positions, rotary]: cos of rotary / 2 frequencies, then sin. The first `rotary` values of a
  // head turn, in half-split pairs (i, i + rotary / 2). Empty: nothing turns.
  View rope;
  // RMSNorm weights: [1, key_dim] for each head, [1, columns of q or k] for all of a row, or empty.
  View q_norm, k_norm;
  View v_norm = {};              // [1, value_dim] or empty
  bool norm_after_rope = false;  // of q and k
  float norm_epsilon = 0;
  float scale = 0;        // of the dot products, usually 1 / sqrt(key_dim)
  View query_scale = {};  // [positions, 1]: a further factor of a query at its position, or empty
  View sinks = {};        // [1, heads]: a score without a value in every softmax, or empty
  float soft_cap = 0;     // c: scores become c * tanh(score / c); 0: none
  int window = 0;         // sees the last `window` keys of its list only; 0: all
  int chunk = 0;          // sees the keys of its own run of `chunk` positions only; 0: all
};
/// The first key of its list that a row sees.
inline int first_visible(const AttentionArgs& args, const AttentionRow& row) {
  int first = 0;
  if (args.window > 0 && row.visible > args.window) first = row.visible - args.window;
  if (args.chunk > 0) {
    const int chunk_begin = (row.visible - 1) / args.chunk * args.chunk;
    if (chunk_begin > first) first = chunk_begin;
  }
  return first;
}

/// A function of single values.
enum class Activation {
  silu,     // x / (1 + e^-x)
  sigmoid,  // 1 / (1 + e^-x)
};

struct Projection {
  const Weight* weight = nullptr;
  View out;                 // [rows, weight->rows]
  View bias = {};           // [1, weight->rows] or empty
  bool accumulate = false;  // out += instead of out =
};
struct LinearArgs {
  View input;  // [rows, cols], or [rows, 2 * cols] with a gate
  InputTransform transform = InputTransform::none;
  View norm = {};       // [1, cols], for rms_norm and layer_norm
  View norm_bias = {};  // [1, cols], for layer_norm; empty: none
  float norm_epsilon = 0;
  std::span<const Projection> outputs;  // all read the same transformed input
  bool rough = false;  // a guess follows: the least exact inputs the backend has will do
  Xielu xielu = {};    // of that transform
};

/// Which experts a row goes to, and with what weights, from the scores of its router.
struct RouteArgs {
  /// near_best: SparseMixer (arXiv:2409.12136) without its noise, of two experts. The best of all
  /// is chosen, then the best of the others; the weight of each is its share, by a softmax, among
  /// those left whose scores are near its own: (best - score) / max(|score|, best) <= 2 * jitter.
  /// What changes scores or weights otherwise is not in use.
  enum class Score { softmax, sigmoid, near_best };
  View scores;  // [rows, experts], as the router gives them
  Score score = Score::softmax;
  float jitter = 0;          // of near_best
  bool renormalize = false;  // the weights of the chosen ones sum to 1
  float scale = 1;           // of the weights
  View bias = {};            // [1, experts], added to the scores for the choice alone; or empty
  View expert_scale = {};    // [1, experts]: a further factor of each weight, or empty
  // Experts lie in `groups` equal groups of neighbours. Of these the `groups_used` best may be
  // chosen from, by their largest score or by the sum of the two largest.
  int groups = 1, groups_used = 1;
  bool group_by_two = false;
  // Out. The k = weights.cols experts of a row are those with the largest scores, ties by smaller
  // number; they are listed by ascending number.
  Indices ids;   // rows * k
  View weights;  // [rows, k]
};

/// The matrices of one expert: out = down(gate(gate_x, up_x)). gate null: down(gate(up_x)), with a
/// function that is no gate.
struct ExpertWeights {
  const Weight* gate = nullptr;
  const Weight* up = nullptr;
  const Weight* down = nullptr;
};
struct ExpertArgs {
  View input;    // [rows, hidden], normed
  Indices ids;   // rows * k, ascending in each row
  View weights;  // [rows, k]
  std::span<const ExpertWeights> experts;
  View gate_bias = {}, up_bias = {}, down_bias = {};  // [experts, width], or all empty
  InputTransform gate = InputTransform::silu_gate;
  bool weigh_input = false;  // an expert reads weight * x, and its output counts once
  // [rows, hidden]: the sum of weight * output over a row's experts in the order of `ids`, from 0.
  View out;
};

}  // namespace talon
