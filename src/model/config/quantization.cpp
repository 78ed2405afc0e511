#include "model/config/quantization.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

using Method = Quantization::Method;
using Limits = ConfigLimits;
constexpr int kNvfp4Group = 16;  // inputs that share a scale, always

/// -1 stands for one group of all inputs, 0 for nothing; 128 is what transformers takes where
/// nothing is said.
int group_of(const ConfigKeys& keys) {
  const int group = keys.integer_or("group_size", -1, Limits::kWidth, 128);
  if (group == 0) keys.refuse("group_size", "-1, which is one group, or an integer from 1 on");
  return std::max(0, group);
}

/// One of `known`, in small or capital letters, below the key of old files or of newer ones.
std::string format_of(const ConfigKeys& keys, const char* old_key,
                      std::initializer_list<std::string_view> known) {
  const char* key = keys.has(old_key) ? old_key : "format";
  std::string format = keys.text_or(key, *known.begin());
  for (char& letter : format) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  if (std::ranges::find(known, format) == known.end()) {
    keys.refuse(key, fmt::format("{}", fmt::join(known, " or ")));
  }
  return format;
}

void read_gptq(const ConfigKeys& keys, Quantization& q) {
  q.method = Method::gptq;
  q.bits = keys.integer("bits", 2, 8);
  if (q.bits > 4 && q.bits != 8) keys.refuse("bits", "2, 3, 4 or 8");
  q.group = group_of(keys);
  q.symmetric = false;  // zero points are stored either way
  q.zeros_less_1 = format_of(keys, "checkpoint_format", {"gptq", "gptq_v2"}) == "gptq";
}

void read_awq(const ConfigKeys& keys, Quantization& q) {
  q.method = Method::awq;
  q.bits = keys.integer("bits", 4, 4);
  q.group = group_of(keys);
  format_of(keys, "version", {"gemm"});
  if (keys.text_or("backend", "") == "llm-awq") keys.refuse("backend", "another one");
  q.symmetric = !keys.flag_or("zero_point", true);
}

/// Without sizes of blocks a matrix has one scale.
void read_fp8(const ConfigKeys& keys, Quantization& q) {
  q.method = Method::float_blocks;
  q.bits = 8;
  if (!keys.has("weight_block_size")) return;
  const auto sizes = keys.integers("weight_block_size", 1, Limits::kWidth, 2);
  if (sizes.size() != 2) keys.refuse("weight_block_size", "two sizes");
  q.block_rows = sizes[0];
  q.block_cols = sizes[1];
}

/// Rotations that the weights already hold change nothing; those of inputs and outputs are part of
/// the model.
void refuse_transforms(const ConfigKeys& keys) {
  const auto config = keys.object("transform_config");
  const Json* groups = config ? config->find("config_groups") : nullptr;
  if (!groups || groups->empty()) return;
  constexpr std::string_view kExpected = "transforms of weights alone";
  if (!groups->is_object()) config->refuse("config_groups", kExpected);
  for (const Json& group : *groups) {
    const Json apply = group.is_object() ? group.value("apply", Json()) : Json();
    if (!apply.is_array()) config->refuse("config_groups", kExpected);
    for (const Json& one : apply) {
      const Json place = one.is_object() ? one.value("location", Json()) : Json();
      if (place != "weight_input" && place != "weight_output") {
        config->refuse("config_groups", kExpected);
      }
    }
  }
}

/// The tensors tell the rest: nf4 and fp4 have their tables beside them.
void read_bitsandbytes(const ConfigKeys& keys, Quantization& q) {
  q.method = Method::bitsandbytes;
  const bool four = keys.flag_or("load_in_4bit", false);
  const bool eight = keys.flag_or("load_in_8bit", false);
  if (four == eight) keys.refuse("load_in_4bit", "true, or load_in_8bit to be true");
  q.bits = four ? 4 : 8;
  if (keys.text_or("bnb_4bit_quant_storage", "uint8") != "uint8") {
    keys.refuse("bnb_4bit_quant_storage", "uint8");
  }
}

/// hf_quant_config.json has the same keys below "quantization".
void read_modelopt(const ConfigKeys& top, Quantization& q) {
  const auto below = top.object("quantization");
  const ConfigKeys& keys = below ? *below : top;
  const std::string algorithm = keys.text("quant_algo");
  if (algorithm == "FP8") {
    q.method = Method::floats;
    q.bits = 8;
    return;
  }
  if (algorithm != "NVFP4") keys.refuse("quant_algo", "NVFP4 or FP8");
  q.method = Method::nvfp4;
  q.group = keys.integer_or("group_size", kNvfp4Group, kNvfp4Group, kNvfp4Group);
}

/// Of small floats bits and groups are those of their mode.
Quantization::Groups read_groups_of_mlx(const ConfigKeys& keys) {
  using Codes = Quantization::Groups::Codes;
  constexpr std::pair<std::string_view, Quantization::Groups> kFloats[] = {
      {"mxfp4", {4, 32, Codes::mxfp4}},
      {"nvfp4", {4, 16, Codes::nvfp4}},
      {"mxfp8", {8, 32, Codes::mxfp8}}};
  const std::string mode = keys.text_or("mode", "affine");
  for (const auto& [name, floats] : kFloats) {
    if (mode != name) continue;
    keys.integer_or("bits", floats.bits, floats.bits, floats.bits);
    keys.integer_or("group_size", floats.inputs, floats.inputs, floats.inputs);
    return floats;
  }
  if (mode != "affine") keys.refuse("mode", "affine, mxfp4, nvfp4 or mxfp8");
  Quantization::Groups groups;
  groups.bits = keys.integer_or("bits", 2, 8, groups.bits);
  if (groups.bits == 7) keys.refuse("bits", "2, 3, 4, 5, 6 or 8");
  groups.inputs = keys.integer_or("group_size", 32, 128, groups.inputs);
  if (groups.inputs % 32 != 0 || groups.inputs == 96) keys.refuse("group_size", "32, 64 or 128");
  return groups;
}

/// MLX's keys are those of the whole and the names of modules: with an object of the same keys, or
/// with whether they have groups at all, which the tensors tell, too.
void read_mlx(const ConfigKeys& top, Quantization& q) {
  constexpr std::string_view kKey = "quantization";
  const auto keys = top.object(kKey);
  q.method = Method::mlx;
  q.groups = read_groups_of_mlx(*keys);
  for (const auto& [name, value] : top.find(kKey)->items()) {
    if (value.is_object()) q.own_groups[name] = read_groups_of_mlx(*keys->object(name));
  }
}

/// The group's format, which the whole names, too, or calls mixed.
std::string format_of(const ConfigKeys& keys, const ConfigKeys& group) {
  const std::string whole = keys.text("format");
  const std::string format = group.text_or("format", whole);
  if (format != whole && whole != "mixed-precision") group.refuse("format", whole);
  return format;
}

/// What a format is; a naive one is told by the type of its codes. `place`: where it stands.
Method method_of(std::string_view format, const ConfigKeys& weights, const ConfigKeys& place) {
  if (format == "pack-quantized") return Method::packed;
  if (format == "int-quantized") return Method::whole_numbers;
  if (format == "float-quantized") return Method::floats;
  if (format == "nvfp4-pack-quantized") return Method::nvfp4;
  if (format != "naive-quantized") {
    place.refuse("format",
                 "pack-quantized, int-quantized, float-quantized, naive-quantized or "
                 "nvfp4-pack-quantized");
  }
  return weights.text_or("type", "int") == "float" ? Method::floats : Method::whole_numbers;
}

/// What the weights of a group share a scale by.
void read_strategy(const ConfigKeys& weights, Quantization& q) {
  const std::string strategy = weights.text_or("strategy", "channel");
  if (strategy == "group") {
    q.group = weights.integer("group_size", 1, Limits::kWidth);
    if (q.method == Method::floats) {
      q.block_rows = 1;
      q.block_cols = q.group;
    }
  } else if (strategy == "block") {
    const auto sizes = weights.integers("block_structure", 1, Limits::kWidth, 2);
    if (sizes.size() != 2) weights.refuse("block_structure", "two sizes");
    q.block_rows = sizes[0];
    q.block_cols = sizes[1];
  } else if (strategy != "tensor" && strategy != "channel") {
    weights.refuse("strategy", "tensor, channel, group or block");
  }
}

void read_compressed(const ConfigKeys& keys, Quantization& q) {
  refuse_transforms(keys);
  if (const auto sparsity = keys.object("sparsity_config")) {
    if (sparsity->text_or("format", "dense") != "dense") sparsity->refuse("format", "dense");
  }
  const auto groups = keys.object("config_groups");
  const Json* all = keys.find("config_groups");
  if (!groups || all->size() != 1) keys.refuse("config_groups", "one group");
  const auto group = groups->object(all->begin().key());
  if (!group) keys.refuse("config_groups", "a group with weights");
  const std::string format = format_of(keys, *group);
  const auto weights = group->object("weights");
  if (!weights) keys.refuse("config_groups", "a group with weights");
  q.method = method_of(format, *weights, group->has("format") ? *group : keys);
  if (q.method == Method::nvfp4) {
    q.group = weights->integer_or("group_size", kNvfp4Group, kNvfp4Group, kNvfp4Group);
    return;
  }
  const bool whole = q.method != Method::floats;
  q.bits = weights->integer("num_bits", 1, 8);
  if (q.bits != 8 && (q.bits != 4 || !whole)) {
    weights->refuse("num_bits", whole ? "4 or 8" : "8");
  }
  q.symmetric = weights->flag_or("symmetric", true);
  if (!q.symmetric && !whole) weights->refuse("symmetric", "true");
  read_strategy(*weights, q);
}

}  // namespace

const Quantization::Groups& Quantization::groups_of(std::string_view matrix) const {
  constexpr std::string_view kEnd = ".weight";
  if (matrix.ends_with(kEnd)) matrix.remove_suffix(kEnd.size());
  const auto own = own_groups.find(matrix);
  return own == own_groups.end() ? groups : own->second;
}

std::optional<Quantization> read_quantization(const ConfigKeys& top) {
  // MLX says the same in quantization_config without a method.
  if (top.has("quantization")) {
    Quantization q;
    read_mlx(top, q);
    return q;
  }
  auto keys = top.object("quantization_config");
  if (!keys) keys = top.object("compression_config");  // as compressed-tensors called it at first
  if (!keys) {
    const auto text = top.object("text_config");
    auto found = text ? read_quantization(*text) : std::nullopt;
    if (const auto beside = top.object("hf_quant_config"); beside && !found) {
      read_modelopt(*beside, found.emplace());
    }
    return found;
  }
  Quantization q;
  const std::string method = keys->text("quant_method");
  if (method == "gptq") {
    read_gptq(*keys, q);
  } else if (method == "awq") {
    read_awq(*keys, q);
  } else if (method == "fp8") {
    read_fp8(*keys, q);
  } else if (method == "fbgemm_fp8") {
    q.method = Method::floats;
    q.bits = 8;
  } else if (method == "compressed-tensors") {
    read_compressed(*keys, q);
  } else if (method == "bitsandbytes") {
    read_bitsandbytes(*keys, q);
  } else if (method == "modelopt") {
    read_modelopt(*keys, q);
  } else if (method != "mxfp4") {
    keys->refuse("quant_method",
                 "gptq, awq, compressed-tensors, fp8, fbgemm_fp8, bitsandbytes, modelopt or mxfp4");
  }
  return q;
}

}  // namespace talon
