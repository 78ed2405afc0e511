#include "model/load/load_experts.h"

#include <cmath>
#include <cstring>

#include "core/error.h"

namespace talon {
namespace {

constexpr int kMxfp4Inputs = 32;  // of a block, in 16 bytes
constexpr std::size_t kMxfp4Codes = 16;

/// A name of a layer and, where it holds a second "{}", of an expert.
std::string expert_tensor(const std::string& name, int layer, int expert) {
  return fmt::format(fmt::runtime(name), layer, expert) + ".weight";
}

/// The same without the expert's number.
std::string stack_of(std::string name) {
  const std::size_t number = name.rfind("{}.");
  if (number != name.find("{}.")) name.erase(number, 3);
  return name;
}

/// What MLX calls that stack.
std::string mlx_stack_of(const std::string& name, int layer) {
  constexpr std::string_view kExperts = "experts.{}.";
  std::string stack = name;
  const std::size_t place = stack.rfind(kExperts);
  if (place == std::string::npos) return {};
  stack.replace(place, kExperts.size(), "switch_mlp.");
  return layer_tensor(stack, layer);
}

std::string stack_tensor(const std::string& name, int layer) {
  return fmt::format(fmt::runtime(name), layer);
}

}  // namespace

/// `fused` holds gate and up of all experts, the gate first or every other row.
struct ExpertLoader::Part {
  std::string own;    // each expert's, or a stack
  std::string fused;  // empty for down
  int layer = 0;
  int count = 0;  // of experts
  int rows = 0;
  int cols = 0;
  int second = 0;          // 1: up, of a fused matrix
  std::string alone = {};  // GGUF files of old: each expert's, before its number; empty: no such
};

ExpertLoader::ExpertLoader(TensorLoader& tensors, const ModelConfig& config,
                           const TensorNames& names)
    : tensors_(tensors),
      config_(config),
      names_(names),
      gguf_(tensors.checkpoint().format == CheckpointFormat::gguf) {}

ExpertLayerWeights ExpertLoader::load(int layer, const LayerPlan& plan) {
  const ExpertPlan& e = plan.experts;
  ExpertLayerWeights w;
  load_router(layer, plan, w);
  Part gate{names_.expert_gate, names_.expert_gate_up, layer, e.count, e.width, config_.hidden};
  Part up = gate;
  up.own = names_.expert_up;
  up.second = 1;
  Part down{names_.expert_down, {}, layer, e.count, config_.hidden, e.width};
  if (gguf_) {
    gate.alone = names_.gate;
    up.alone = names_.up;
    down.alone = names_.down;
  }
  const std::size_t before = tensors_.weight_bytes();
  for (int expert = 0; expert < e.count; ++expert) {
    ExpertWeights one;
    for (auto [part, to] : {std::pair{&gate, &one.gate}, {&up, &one.up}, {&down, &one.down}}) {
      if (part == &gate && !is_gate(plan.activation)) continue;
      w.matrices.push_back(load_part(*part, expert));
      *to = w.matrices.back().get();
    }
    w.experts.push_back(one);
  }
  // A row reads so many of them.
  const std::size_t bytes = tensors_.weight_bytes() - before;
  tensors_.forget_weight_bytes(before + bytes / static_cast<std::size_t>(e.count) *
                                            static_cast<std::size_t>(e.used));
  if (e.biases) load_biases(layer, plan, w);
  if (e.shared_width > 0) load_shared(layer, plan, w);
  if (e.beside_dense) load_norms(layer, w);
  return w;
}

void ExpertLoader::load_router(int layer, const LayerPlan& plan, ExpertLayerWeights& w) {
  const ExpertPlan& e = plan.experts;
  w.router = tensors_.float_matrix(layer_tensor(names_.router, layer), e.count, config_.hidden);
  if (e.biases)
    w.router_bias = tensors_.vector(layer_tensor(names_.router, layer, "bias"), e.count);
  if (e.choice_bias) {
    const std::string name = stack_tensor(names_.choice_bias, layer);
    const StoredTensor* bias = tensors_.checkpoint().find(name);
    const bool is_row = bias && bias->shape.size() == 2;  // ERNIE's
    w.choice_bias = is_row ? tensors_.upload(tensors_.values(name, {1, e.count}), 1, e.count)
                           : tensors_.vector(name, e.count);
  }
}

/// Gemma 4's norms around both networks, and the factors of its router.
void ExpertLoader::load_norms(int layer, ExpertLayerWeights& w) {
  const auto norm = [&](const std::string& name) {
    return tensors_.vector(layer_tensor(name, layer), config_.hidden);
  };
  w.pre_norm = norm(names_.pre_expert_norm);
  w.dense_post_norm = norm(names_.post_dense_norm);
  w.expert_post_norm = norm(names_.post_expert_norm);
  std::vector<float> scale =
      tensors_.values(stack_tensor(names_.router_scale, layer), {config_.hidden});
  const float factor = 1.0F / std::sqrt(static_cast<float>(config_.hidden));
  for (float& value : scale) value *= factor;
  w.router_norm = tensors_.upload(scale, 1, config_.hidden);
  const int count = static_cast<int>(w.experts.size());
  w.expert_scale = tensors_.vector(stack_tensor(names_.expert_scale, layer), count);
}

void ExpertLoader::load_shared(int layer, const LayerPlan& plan, ExpertLayerWeights& w) {
  const int width = plan.experts.shared_width, hidden = config_.hidden;
  if (tensors_.has(layer_tensor(names_.shared_gate_up, layer))) {
    const std::string name = layer_tensor(names_.shared_gate_up, layer);
    w.shared_gate = tensors_.matrix(name, width, hidden, {0, 2 * width});
    w.shared_up = tensors_.matrix(name, width, hidden, {width, 2 * width});
  } else {
    if (is_gate(plan.activation)) {
      w.shared_gate = tensors_.matrix(layer_tensor(names_.shared_gate, layer), width, hidden);
    }
    w.shared_up = tensors_.matrix(layer_tensor(names_.shared_up, layer), width, hidden);
  }
  w.shared_down = tensors_.matrix(layer_tensor(names_.shared_down, layer), hidden, width);
  if (!plan.experts.shared_gate) return;
  const std::string router = layer_tensor(names_.shared_router, layer);
  const StoredTensor* tensor = tensors_.checkpoint().find(router);
  const bool flat = tensor && tensor->shape.size() == 1;  // as GGUF files hold one row
  if (!flat) {
    w.shared_router = tensors_.float_matrix(router, 1, hidden);
    return;
  }
  const StoredTensor& row = tensors_.checked(router, {hidden});
  w.shared_router = tensors_.made_float_matrix({router, row.type, 1, hidden, row.bytes});
}

void ExpertLoader::load_biases(int layer, const LayerPlan& plan, ExpertLayerWeights& w) {
  const int count = plan.experts.count, width = plan.experts.width, hidden = config_.hidden;
  const auto upload = [&](const std::vector<float>& values, int cols) {
    return tensors_.upload(values, count, cols);
  };
  // In GGUF files, and in MLX's folders.
  if (gguf_ || tensors_.has(layer_tensor(stack_of(names_.expert_gate), layer, "bias"))) {
    const auto load = [&](const std::string& stem, int cols) {
      const std::string name = layer_tensor(stack_of(stem), layer, "bias");
      return upload(tensors_.values(name, {count, cols}), cols);
    };
    w.gate_bias = load(names_.expert_gate, width);
    w.up_bias = load(names_.expert_up, width);
    w.down_bias = load(names_.expert_down, hidden);
    return;
  }
  // Gate and up alternate.
  const auto both =
      tensors_.values(stack_tensor(names_.expert_gate_up, layer) + "_bias", {count, 2 * width});
  std::vector<float> gate, up;
  for (std::size_t i = 0; i < both.size(); i += 2) {
    gate.push_back(both[i]);
    up.push_back(both[i + 1]);
  }
  w.gate_bias = upload(gate, width);
  w.up_bias = upload(up, width);
  const std::string down = stack_tensor(stack_of(names_.expert_down), layer) + "_bias";
  w.down_bias = upload(tensors_.values(down, {count, hidden}), hidden);
}

/// Gate and up of all experts in one stack, a stack of its own, or a matrix for each expert, as
/// Mixtral's first GGUF files have it, too.
std::unique_ptr<Weight> ExpertLoader::load_part(const Part& part, int expert) {
  for (const bool fused : {true, false}) {
    const std::string stem = fused ? part.fused : stack_of(part.own);
    if (stem.empty()) continue;
    for (const char* suffix : {"", ".weight"}) {
      const std::string name = stack_tensor(stem, part.layer) + suffix;
      if (tensors_.has(name + "_blocks")) return load_mxfp4(part, name, expert);
      if (!tensors_.has(name)) continue;
      // MLX turns stacks round and ends their names as those of matrices.
      const bool inputs_first = config_.forms.experts_inputs_first && *suffix == '\0';
      if (inputs_first) return load_inputs_first(part, name, expert);
      const StoredRows rows =
          fused ? StoredRows{part.second * part.rows, 2 * part.rows} : StoredRows{};
      return tensors_.matrix_of_stack(name, part.count, expert, part.rows, part.cols, rows);
    }
  }
  if (const std::string name = mlx_stack_of(part.own, part.layer); tensors_.has(name)) {
    return tensors_.matrix_of_stack(name, part.count, expert, part.rows, part.cols);
  }
  if (!part.alone.empty()) {
    const std::string name = layer_tensor(part.alone, part.layer, fmt::format("{}.weight", expert));
    if (tensors_.has(name)) return tensors_.matrix(name, part.rows, part.cols);
  }
  return tensors_.matrix(expert_tensor(part.own, part.layer, expert), part.rows, part.cols);
}

/// A stack of matrices [inputs, outputs], turned round.
std::unique_ptr<Weight> ExpertLoader::load_inputs_first(const Part& part, const std::string& name,
                                                        int expert) {
  const bool fused = !part.fused.empty();
  const int outputs = fused ? 2 * part.rows : part.rows;
  const StoredMatrix stored = tensors_.stored_matrix(name, {.count = part.count,
                                                            .index = expert,
                                                            .rows = part.cols,
                                                            .cols = outputs,
                                                            .inputs_first = true});
  const BlockShape block = block_shape(stored.type);
  if (block.elements != 1) {
    fail("load {} \"{}\": expected a floating-point type for a matrix with inputs first, found {}",
         tensors_.checkpoint().path.string(), name, name_of(stored.type));
  }
  const std::size_t size = block.bytes;
  const auto cols = static_cast<std::size_t>(part.cols), rows = static_cast<std::size_t>(part.rows);
  const auto all = static_cast<std::size_t>(outputs);
  const std::byte* from = stored.bytes.data();
  std::vector<std::byte> turned(rows * cols * size);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto second = static_cast<std::size_t>(part.second);
    const std::size_t output = !fused                            ? row
                               : config_.forms.experts_alternate ? 2 * row + second
                                                                 : second * rows + row;
    for (std::size_t col = 0; col < cols; ++col) {
      std::memcpy(&turned[(row * cols + col) * size], from + (col * all + output) * size, size);
    }
  }
  return tensors_.made_matrix({name, stored.type, part.rows, part.cols, turned});
}

/// gpt-oss: codes of 32 inputs in 16 bytes, neighbours in one byte, and a byte of scale. GGUF's
/// blocks hold inputs i and i + 16 in one byte, behind their scale. Rows of gate and up alternate.
std::unique_ptr<Weight> ExpertLoader::load_mxfp4(const Part& part, const std::string& name,
                                                 int expert) {
  const bool fused = !part.fused.empty();
  const int outputs = fused ? 2 * part.rows : part.rows;
  const int blocks = part.cols / kMxfp4Inputs;
  const auto require = [&](const std::string& of, std::vector<std::int64_t> shape) {
    const StoredTensor& tensor = tensors_.checkpoint().require(of);
    if (tensor.type == StorageType::u8 && tensor.shape == shape && blocks > 0) return tensor.bytes;
    fail("load {} \"{}\": expected u8 blocks of {} experts with {} outputs and {} inputs",
         tensors_.checkpoint().path.string(), of, part.count, outputs, part.cols);
  };
  const auto codes = require(name + "_blocks", {part.count, outputs, blocks, 16});
  const auto scales = require(name + "_scales", {part.count, outputs, blocks});
  std::vector<std::byte> made;
  made.reserve(static_cast<std::size_t>(part.rows * blocks) * (kMxfp4Codes + 1));
  for (int row = 0; row < part.rows; ++row) {
    const int output = expert * outputs + (fused ? 2 * row + part.second : row);
    for (int block = 0; block < blocks; ++block) {
      const auto at = static_cast<std::size_t>(output) * static_cast<std::size_t>(blocks) +
                      static_cast<std::size_t>(block);
      made.push_back(scales[at]);
      const auto code = [&](std::size_t input) {
        const std::byte pair = codes[at * kMxfp4Codes + input / 2];
        return input % 2 == 0 ? pair & std::byte{15} : pair >> 4;
      };
      for (std::size_t i = 0; i < kMxfp4Codes; ++i) {
        made.push_back(code(i) | code(i + kMxfp4Codes) << 4);
      }
    }
  }
  return tensors_.made_matrix({name, StorageType::mxfp4, part.rows, part.cols, made});
}

}  // namespace talon
