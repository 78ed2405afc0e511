#include "model/load/load_layer.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "model/config/config_keys.h"
#include "model/load/load_experts.h"

namespace talon {
namespace {

/// Columns of a head that turn in a layer.
int rotary_of(const LayerPlan& plan, const ModelConfig& config) {
  const RopeConfig& rope =
      plan.rope == LayerPlan::Rope::local && config.local_rope ? *config.local_rope : config.rope;
  return rope.rotary > 0 ? rope.rotary : plan.head_dim;
}

/// Row i of the result is stored row order[i]: of the columns of each head that turn, pairwise
/// order (0 and 1 turn together, 2 and 3, ...) becomes half-split (0 and d/2, 1 and d/2 + 1, ...).
void append_half_split(int first, int rotary, int head_dim, std::vector<std::int32_t>& order) {
  for (int i = 0; i < rotary; i += 2) order.push_back(first + i);
  for (int i = 1; i < rotary; i += 2) order.push_back(first + i);
  for (int i = rotary; i < head_dim; ++i) order.push_back(first + i);
}

/// Where the rows of q, k or v lie in the matrix that holds them.
struct Rows {
  int first = 0;
  int stored = 0;
  std::vector<std::int32_t> order;
  StoredRows part() const { return {first, stored, order}; }
};

/// Whether the matrix of the queries holds their gates, too.
bool holds_gates(const LayerPlan& plan, const ModelConfig& config) {
  return plan.output_gate && !config.forms.gate_apart;
}

/// Of the queries, with their gates where they hold some.
int query_rows(const LayerPlan& plan, const ModelConfig& config) {
  return (holds_gates(plan, config) ? 2 : 1) * plan.heads * plan.head_dim;
}

/// Of one matrix that holds queries, keys and values.
int fused_rows(const LayerPlan& plan, const ModelConfig& config) {
  return query_rows(plan, config) + plan.kv_heads * (plan.head_dim + plan.values());
}

/// Queries and their gates take turns, head by head: the rows of the first or the second.
Rows gated_rows_of(const LayerPlan& plan, const ModelConfig& config, int second, bool fused) {
  Rows rows;
  rows.stored = fused ? fused_rows(plan, config) : query_rows(plan, config);
  for (int head = 0; head < plan.heads; ++head) {
    append_half_split((2 * head + second) * plan.head_dim, 0, plan.head_dim, rows.order);
  }
  return rows;
}

/// `index`: 0 for q, 1 for k, 2 for v.
Rows rows_of(const LayerPlan& plan, const ModelConfig& config, int index, bool fused) {
  if (holds_gates(plan, config) && index == 0) return gated_rows_of(plan, config, 0, fused);
  const int heads = index == 0 ? plan.heads : plan.kv_heads;
  const int head_dim = index == 2 ? plan.values() : plan.head_dim;
  Rows rows;
  int between = head_dim;  // rows from one head to the next
  if (fused) {
    const int queries = query_rows(plan, config), keys = plan.kv_heads * plan.head_dim;
    rows.stored = fused_rows(plan, config);
    rows.first = index == 0 ? 0 : index == 1 ? queries : queries + keys;
    if (config.forms.qkv_by_head) {
      between = 3 * head_dim;
      rows.first = index * head_dim;
    }
  }
  const bool paired = config.interleaved_rope && index < 2 &&
                      (plan.rope != LayerPlan::Rope::none || config.forms.still_rows_paired);
  if (!paired && between == head_dim) return rows;
  for (int head = 0; head < heads; ++head) {
    append_half_split(head * between, paired ? rotary_of(plan, config) : 0, head_dim, rows.order);
  }
  return rows;
}

/// A tensor of one value: a vector or, as of buffers, a scalar.
float value_of(TensorLoader& tensors, const std::string& name) {
  const bool is_scalar = tensors.checkpoint().require(name).shape.empty();
  return tensors.values(name, std::vector<std::int64_t>(is_scalar ? 0 : 1, 1))[0];
}

float softplus(float x) {
  return static_cast<float>(std::max(double{x}, 0.0) + std::log1p(std::exp(-std::fabs(double{x}))));
}

/// Whether it holds a second "{}", for the number of a head.
bool is_of_one_head(const std::string& name) { return name.find("{}") != name.rfind("{}"); }

/// [heads, head_dim], a tensor for each head.
std::vector<float> values_of_heads(TensorLoader& tensors, const std::string& name, int layer,
                                   int heads, int head_dim) {
  std::vector<float> values;
  for (int head = 0; head < heads; ++head) {
    const std::string tensor = fmt::format(fmt::runtime(name), layer, head) + ".weight";
    const std::vector<float> own = tensors.values(tensor, {head_dim});
    values.insert(values.end(), own.begin(), own.end());
  }
  return values;
}

/// [heads, head_dim]. The rows of a file may be fewer, each then stands for as many heads that
/// follow each other: Lumina-mGPT has one for each part that the model was trained in, Phi 2 a
/// vector for all heads.
std::vector<float> values_by_head(TensorLoader& tensors, const std::string& name, int heads,
                                  int head_dim) {
  const std::vector<std::int64_t>& shape = tensors.checkpoint().require(name).shape;
  const bool is_vector = shape == std::vector<std::int64_t>{head_dim};
  const bool shared = shape.size() == 2 && shape[0] > 0 && heads % shape[0] == 0;
  const int parts = is_vector ? 1 : shared ? static_cast<int>(shape[0]) : heads;
  const std::vector<float> stored =
      is_vector ? tensors.values(name, {head_dim}) : tensors.values(name, {parts, head_dim});
  std::vector<float> values;
  for (int head = 0; head < heads; ++head) {
    const int part = head / (heads / parts);
    const auto row = stored.begin() + static_cast<std::ptrdiff_t>(part) * head_dim;
    values.insert(values.end(), row, row + head_dim);
  }
  return values;
}

}  // namespace

LayerLoader::LayerLoader(TensorLoader& tensors, const ModelConfig& config)
    : tensors_(tensors),
      config_(config),
      names_(TensorNames::of(tensors.checkpoint().format, config)) {}

Buffer LayerLoader::norm(const std::string& name, int size) {
  return tensors_.vector(name, size, {}, config_.forms.norm_plus_one ? 1.0F : 0.0F);
}

Buffer LayerLoader::ones(int size) {
  const std::vector<float> values(static_cast<std::size_t>(size), 1.0F);
  return tensors_.upload(values, 1, size);
}

LayerWeights LayerLoader::load(int layer) {
  const LayerPlan& plan = config_.plans[static_cast<std::size_t>(layer)];
  const auto layer_norm = [&](const std::string& name) {
    return norm(layer_tensor(name, layer), config_.hidden);
  };
  const auto norm_bias = [&](const std::string& name) {
    return tensors_.vector(layer_tensor(name, layer, "bias"), config_.hidden);
  };
  LayerWeights w;
  if (plan.pre_norms) {
    if (plan.mixes()) w.attention_norm = layer_norm(names_.attention_norm);
    if (plan.has_network()) w.ffn_norm = norm(names_.ffn_norm_of(layer), config_.hidden);
  }
  if (plan.norm_bias) {
    w.attention_norm_bias = norm_bias(names_.attention_norm);
    w.ffn_norm_bias = norm_bias(names_.ffn_norm);
  }
  if (plan.post_norms) {
    w.post_attention_norm = layer_norm(names_.post_attention_norm);
    w.post_ffn_norm = layer_norm(names_.post_ffn_norm);
  }
  if (plan.recurrent.value_heads > 0) load_recurrent(layer, plan, w);
  if (plan.attends) load_attention(layer, plan, w);
  load_feed_forward(layer, plan, w);
  if (plan.experts.count > 0) {
    w.experts = ExpertLoader(tensors_, config_, names_).load(layer, plan);
  }
  if (plan.per_layer_input > 0) load_layer_input(layer, plan, w);
  if (plan.output_scale) {
    const bool gguf = tensors_.checkpoint().format == CheckpointFormat::gguf;
    const std::string name = layer_tensor(names_.layer_scale, layer);
    w.output_scale = tensors_.values(gguf ? name : name.substr(0, name.size() - 7), {1})[0];
  }
  return w;
}

void LayerLoader::load_layer_input(int layer, const LayerPlan& plan, LayerWeights& w) {
  const int width = plan.per_layer_input, hidden = config_.hidden;
  w.input_gate = tensors_.matrix(layer_tensor(names_.input_gate, layer), width, hidden);
  w.input_projection = tensors_.matrix(layer_tensor(names_.input_projection, layer), hidden, width);
  w.input_norm = norm(layer_tensor(names_.input_norm, layer), hidden);
}

void LayerLoader::load_attention(int layer, const LayerPlan& plan, LayerWeights& w) {
  if (plan.latent.kv_rank > 0) return load_latents(layer, plan, w);
  load_projections(layer, plan, w);
  w.o = tensors_.matrix(layer_tensor(names_.o, layer), config_.hidden, plan.heads * plan.values());
  if (plan.output_bias) {
    w.o_bias = tensors_.vector(layer_tensor(names_.o, layer, "bias"), config_.hidden);
  }
  load_head_norms(layer, plan, w);
}

/// A GGUF file may have one matrix in some layers only: those that have all three.
bool LayerLoader::is_fused(int layer) const {
  if (tensors_.has(layer_tensor(names_.q, layer))) return false;
  const bool gguf = tensors_.checkpoint().format == CheckpointFormat::gguf;
  return config_.forms.fused_qkv || (gguf && tensors_.has(layer_tensor(names_.qkv, layer)));
}

void LayerLoader::load_projections(int layer, const LayerPlan& plan, LayerWeights& w) {
  const bool fused = is_fused(layer);
  const auto load = [&](const std::string& own, int index, int rows,
                        std::unique_ptr<Weight>& weight, Buffer& bias) {
    const std::string& name = fused ? names_.qkv : own;
    const Rows stored = rows_of(plan, config_, index, fused);
    weight = tensors_.matrix(layer_tensor(name, layer), rows, config_.hidden, stored.part());
    if (!plan.qkv_bias) return;
    bias = tensors_.vector(layer_tensor(name, layer, "bias"), rows, stored.part());
  };
  load(names_.q, 0, plan.heads * plan.head_dim, w.q, w.q_bias);
  if (holds_gates(plan, config_)) {
    const Rows gates = gated_rows_of(plan, config_, 1, fused);
    w.output_gate = tensors_.matrix(layer_tensor(fused ? names_.qkv : names_.q, layer),
                                    plan.heads * plan.head_dim, config_.hidden, gates.part());
  } else if (plan.output_gate) {
    w.output_gate = tensors_.matrix(layer_tensor(names_.attention_gate, layer),
                                    plan.heads * plan.values(), config_.hidden);
  }
  if (!plan.writes_cache) return;
  load(names_.k, 1, plan.kv_heads * plan.head_dim, w.k, w.k_bias);
  if (plan.keys_are_values) return;
  load(names_.v, 2, plan.kv_heads * plan.values(), w.v, w.v_bias);
}

/// In the order of the rows whose results they weigh.
void LayerLoader::load_layer_norms_of_heads(int layer, const LayerPlan& plan, LayerWeights& w) {
  const auto load = [&](const std::string& name, int index, int heads, const char* part) {
    const std::vector<float> stored =
        is_of_one_head(name)
            ? values_of_heads(tensors_, name, layer, heads, plan.head_dim)
            : values_by_head(tensors_, layer_tensor(name, layer, part), heads, plan.head_dim);
    const Rows rows = rows_of(plan, config_, index, false);
    std::vector<float> values;
    for (const std::int32_t row : rows.order) {
      values.push_back(stored[static_cast<std::size_t>(row)]);
    }
    return tensors_.upload(values.empty() ? stored : values, 1, heads * plan.head_dim);
  };
  w.q_norm = load(names_.q_norm, 0, plan.heads, "weight");
  w.k_norm = load(names_.k_norm, 1, plan.kv_heads, "weight");
  if (!plan.head_norm_bias) return;
  w.q_norm_bias = load(names_.q_norm, 0, plan.heads, "bias");
  w.k_norm_bias = load(names_.k_norm, 1, plan.kv_heads, "bias");
}

void LayerLoader::load_head_norms(int layer, const LayerPlan& plan, LayerWeights& w) {
  using HeadNorm = LayerPlan::HeadNorm;
  if (plan.head_norm == HeadNorm::layer_per_head) {
    load_layer_norms_of_heads(layer, plan, w);
  } else if (plan.head_norm == HeadNorm::after_rope && !plan.head_norm_weights) {
    w.q_norm = ones(plan.head_dim);
    w.k_norm = ones(plan.head_dim);
  } else if (plan.head_norm != HeadNorm::none) {
    const bool whole = plan.head_norm == HeadNorm::per_row;
    w.q_norm = norm(layer_tensor(names_.q_norm, layer), (whole ? plan.heads : 1) * plan.head_dim);
    if (plan.writes_cache) {
      w.k_norm =
          norm(layer_tensor(names_.k_norm, layer), (whole ? plan.kv_heads : 1) * plan.head_dim);
    }
  }
  if (plan.value_norm) w.v_norm = ones(plan.values());
  if (plan.sinks) {
    const bool gguf = tensors_.checkpoint().format == CheckpointFormat::gguf;
    const std::string name = layer_tensor(names_.sinks, layer);
    w.sinks = tensors_.vector(gguf ? name : name.substr(0, name.size() - 7), plan.heads);
  }
}

/// A GGUF file lists the numbers of all layers under keys, folders hold tensors.
StoredXielu LayerLoader::stored_xielu(int layer) {
  const Checkpoint& checkpoint = tensors_.checkpoint();
  const auto number = [&](std::string_view name, float otherwise) {
    if (checkpoint.format == CheckpointFormat::gguf) {
      const ConfigKeys keys(checkpoint.metadata, checkpoint.path.string());
      const auto all = keys.numbers(fmt::format("xielu.{}", name), -StoredXielu::kLargest,
                                    StoredXielu::kLargest, config_.plans.size());
      return all.empty() ? otherwise : all[static_cast<std::size_t>(layer)];
    }
    const std::string tensor = layer_tensor(names_.activation, layer, name);
    const bool may_lack = name == "beta" || name == "eps";
    return may_lack && !tensors_.has(tensor) ? otherwise : value_of(tensors_, tensor);
  };
  StoredXielu stored;
  stored.alpha_p = number("alpha_p", stored.alpha_p);
  stored.alpha_n = number("alpha_n", stored.alpha_n);
  stored.beta = number("beta", stored.beta);
  stored.epsilon = number("eps", stored.epsilon);
  return stored;
}

void LayerLoader::load_feed_forward(int layer, const LayerPlan& plan, LayerWeights& w) {
  const int width = plan.intermediate;
  if (width == 0) return;
  const auto load = [&](const std::string& name, int rows, int cols,
                        std::unique_ptr<Weight>& weight, Buffer& bias,
                        const StoredRows& part = {}) {
    weight = tensors_.matrix(layer_tensor(name, layer), rows, cols, part);
    if (plan.mlp_bias) bias = tensors_.vector(layer_tensor(name, layer, "bias"), rows, part);
  };
  if (config_.forms.fused_gate_up) {
    load(names_.gate_up, width, config_.hidden, w.gate, w.gate_bias, {0, 2 * width});
    load(names_.gate_up, width, config_.hidden, w.up, w.up_bias, {width, 2 * width});
  } else {
    if (is_gate(plan.activation)) load(names_.gate, width, config_.hidden, w.gate, w.gate_bias);
    load(names_.up, width, config_.hidden, w.up, w.up_bias);
  }
  load(names_.down, config_.hidden, width, w.down, w.down_bias);
  if (plan.activation != InputTransform::xielu) return;
  const StoredXielu stored = stored_xielu(layer);
  w.xielu = {softplus(stored.alpha_p), stored.beta + softplus(stored.alpha_n), stored.beta,
             stored.epsilon};
}

}  // namespace talon
