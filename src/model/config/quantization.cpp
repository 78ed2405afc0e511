#include "model/config/quantization.h"

#include "core/error.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

using Method = Quantization::Method;
using Limits = ConfigLimits;

/// -1 and 0 stand for one group of all inputs.
int group_of(const ConfigKeys& keys) {
  return std::max(0, keys.integer_or("group_size", -1, Limits::kWidth, 0));
}

void read_gptq(const ConfigKeys& keys, Quantization& q) {
  q.method = Method::gptq;
  q.bits = keys.integer("bits", 2, 8);
  if (q.bits != 2 && q.bits != 4 && q.bits != 8) keys.refuse("bits", "2, 4 or 8");
  q.group = group_of(keys);
  const std::string format = keys.text_or("checkpoint_format", "gptq");
  if (format != "gptq" && format != "gptq_v2") keys.refuse("checkpoint_format", "gptq or gptq_v2");
  q.symmetric = false;  // zero points are stored either way
  q.zeros_less_1 = format == "gptq";
}

void read_awq(const ConfigKeys& keys, Quantization& q) {
  q.method = Method::awq;
  q.bits = keys.integer("bits", 4, 4);
  q.group = group_of(keys);
  if (keys.text_or("version", "gemm") != "gemm") keys.refuse("version", "gemm");
  q.symmetric = !keys.flag_or("zero_point", true);
}

void read_fp8(const ConfigKeys& keys, Quantization& q) {
  q.method = Method::float_blocks;
  q.bits = 8;
  const auto sizes = keys.integers("weight_block_size", 1, Limits::kWidth, 2);
  if (sizes.size() != 2) keys.refuse("weight_block_size", "two sizes");
  q.block_rows = sizes[0];
  q.block_cols = sizes[1];
}

void read_compressed(const ConfigKeys& keys, Quantization& q) {
  const std::string format = keys.text("format");
  if (format == "pack-quantized") {
    q.method = Method::packed;
  } else if (format == "int-quantized") {
    q.method = Method::whole_numbers;
  } else if (format == "float-quantized") {
    q.method = Method::floats;
  } else {
    keys.refuse("format", "pack-quantized, int-quantized or float-quantized");
  }
  const auto groups = keys.object("config_groups");
  const Json* all = keys.find("config_groups");
  if (!groups || all->size() != 1) keys.refuse("config_groups", "one group");
  const auto group = groups->object(all->begin().key());
  const auto weights = group ? group->object("weights") : std::nullopt;
  if (!weights) keys.refuse("config_groups", "a group with weights");
  q.bits = weights->integer("num_bits", 1, 8);
  if (q.bits != 8 && (q.bits != 4 || q.method != Method::packed)) {
    weights->refuse("num_bits", q.method == Method::packed ? "4 or 8" : "8");
  }
  const std::string strategy = weights->text_or("strategy", "channel");
  if (strategy != "tensor" && strategy != "channel" && strategy != "group" && strategy != "block") {
    weights->refuse("strategy", "tensor, channel, group or block");
  }
  if (strategy == "group") q.group = weights->integer("group_size", 1, Limits::kWidth);
  q.symmetric = weights->flag_or("symmetric", true);
  if (strategy != "block") return;
  const auto sizes = weights->integers("block_structure", 1, Limits::kWidth, 2);
  if (sizes.size() != 2) weights->refuse("block_structure", "two sizes");
  q.block_rows = sizes[0];
  q.block_cols = sizes[1];
}

}  // namespace

std::optional<Quantization> read_quantization(const ConfigKeys& top) {
  const auto keys = top.object("quantization_config");
  if (!keys) return std::nullopt;
  Quantization q;
  const std::string method = keys->text("quant_method");
  if (method == "gptq") {
    read_gptq(*keys, q);
  } else if (method == "awq") {
    read_awq(*keys, q);
  } else if (method == "fp8") {
    read_fp8(*keys, q);
  } else if (method == "compressed-tensors") {
    read_compressed(*keys, q);
  } else if (method != "mxfp4") {
    keys->refuse("quant_method", "gptq, awq, compressed-tensors, fp8 or mxfp4");
  }
  return q;
}

}  // namespace talon
