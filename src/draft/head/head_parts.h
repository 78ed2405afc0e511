#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/input_transform.h"
#include "core/error.h"
#include "draft/head/head_tensors.h"
#include "io/checkpoint.h"
#include "io/json.h"
#include "model/config/config_keys.h"

namespace talon {

/// What the configurations of all kinds of draft heads have in common.

/// Positions where a file names no number of them: what all official heads were trained for.
constexpr int kUsualHeadContext = 2048;

/// The first name in the list `architectures` of a config.json; empty if there is none.
std::string first_architecture(const Json& config);

/// The layers whose part of `rope_parameters` all layers of a head have, where there is one for
/// each kind: speculators' code takes that of layers that slide.
std::string_view rope_kind(const ConfigKeys& layer, bool is_of_speculators);

/// REQUIRES: the tensor has such a dimension.
int tensor_rows(const StoredTensor& tensor);
int tensor_columns(const StoredTensor& tensor);

/// What the feed-forward network of a head makes of its gate: by `hidden_act`, without which
/// `hidden_activation` counts, Gemma's name of it; silu where neither is there. Throws Error naming
/// the key.
InputTransform read_activation(const ConfigKeys& keys);

struct HeadCounts {
  int heads;
  int kv_heads;
};
/// How many heads of head_dim those rows of "q_proj.weight" and "k_proj.weight" are. Throws Error
/// unless they are whole heads of an even size, and each of k's is read by as many of q's.
HeadCounts count_heads(const HeadTensors& tensors, int q_rows, int k_rows, int head_dim);

/// Layers that see the newest tokens alone.
struct SlidingLayers {
  std::vector<bool> slides;  // of each layer
  int window = 0;            // how many these see; 0: none slides
};
/// By `layer_types`, without which Qwen's `use_sliding_window` and `max_window_layers` count, and
/// `sliding_window`. Throws Error naming the key.
SlidingLayers read_sliding_layers(const ConfigKeys& keys, int layers);

template <typename... Args>
[[noreturn]] void refuse_target(const std::string& doing, fmt::format_string<Args...> format,
                                Args&&... args) {
  fail("{}: the head does not fit the target: {}", doing,
       fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace talon
