#include "train/image/network/vq_shape.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

namespace talon {
namespace {

/// Adds the tensors of the layers that both halves are made of.
class ShapeList {
 public:
  void conv(const std::string& name, int in, int out, int side) {
    shapes.push_back({name + ".weight", {out, in, side, side}});
    shapes.push_back({name + ".bias", {out}});
  }
  void norm(const std::string& name, int width) {
    shapes.push_back({name + ".weight", {width}});
    shapes.push_back({name + ".bias", {width}});
  }
  void block(const std::string& name, int in, int out) {
    norm(name + ".norm1", in);
    conv(name + ".conv1", in, out, 3);
    norm(name + ".norm2", out);
    conv(name + ".conv2", out, out, 3);
    if (in != out) conv(name + ".nin_shortcut", in, out, 1);
  }
  void attention(const std::string& name, int width) {
    norm(name + ".norm", width);
    for (const char* part : {".q", ".k", ".v", ".proj_out"}) conv(name + part, width, width, 1);
  }
  void middle(const std::string& name, int width) {
    block(name + ".mid.0", width, width);
    attention(name + ".mid.1", width);
    block(name + ".mid.2", width, width);
  }

  std::vector<ParameterStore::Shape> shapes;
};

std::string at(const std::string& half, int level) {
  return half + ".conv_blocks." + std::to_string(level);
}

void add_encoder(ShapeList& list, const VqShape& shape) {
  list.conv("encoder.conv_in", 3, shape.channels, 3);
  int width = shape.channels;
  for (int level = 0; level < shape.levels(); ++level) {
    const std::string name = at("encoder", level);
    const bool last = level + 1 == shape.levels();
    for (int i = 0; i < shape.blocks; ++i) {
      list.block(name + ".res." + std::to_string(i), width, shape.width(level));
      width = shape.width(level);
      if (last) list.attention(name + ".attn." + std::to_string(i), width);
    }
    if (!last) list.conv(name + ".downsample.conv", width, width, 3);
  }
  list.middle("encoder", width);
  list.norm("encoder.norm_out", width);
  list.conv("encoder.conv_out", width, shape.latent, 3);
  list.conv("quant_conv", shape.latent, shape.code_width, 1);
}

void add_decoder(ShapeList& list, const VqShape& shape) {
  list.conv("post_quant_conv", shape.code_width, shape.latent, 1);
  int width = shape.width(shape.levels() - 1);
  list.conv("decoder.conv_in", shape.latent, width, 3);
  list.middle("decoder", width);
  for (int i = 0; i < shape.levels(); ++i) {
    const int level = shape.levels() - 1 - i;
    const std::string name = at("decoder", i);
    for (int j = 0; j <= shape.blocks; ++j) {
      list.block(name + ".res." + std::to_string(j), width, shape.width(level));
      width = shape.width(level);
      if (i == 0) list.attention(name + ".attn." + std::to_string(j), width);
    }
    if (level > 0) list.conv(name + ".upsample.conv", width, width, 3);
  }
  list.norm("decoder.norm_out", width);
  list.conv("decoder.conv_out", width, 3, 3);
}

}  // namespace

Json to_json(const VqShape& shape) {
  return {{"channels", shape.channels}, {"multipliers", shape.multipliers},
          {"blocks", shape.blocks},     {"latent", shape.latent},
          {"codes", shape.codes},       {"code_width", shape.code_width}};
}

std::vector<ParameterStore::Shape> parameter_shapes(const VqShape& shape) {
  ShapeList list;
  add_encoder(list, shape);
  add_decoder(list, shape);
  return list.shapes;
}

void set_initial_values(ParameterStore& parameters, std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (const std::string& name : parameters.names()) {
    const torch::Tensor& value = parameters[name].value;
    if (value.dim() > 1) {
      const double inputs = static_cast<double>(value.numel()) / static_cast<double>(value.size(0));
      // The last layers of a block start small, so that blocks start near the identity.
      const bool last =
          name.find("conv2") != std::string::npos || name.find("proj_out") != std::string::npos;
      const double size = std::sqrt((last ? 0.1 : 1.0) / inputs);
      parameters.set(name, torch::empty(value.sizes(), torch::kFloat).normal_(0, size, generator));
    } else if (name.find("norm") != std::string::npos && name.ends_with(".weight")) {
      parameters.set(name, torch::ones(value.sizes()));
    }
  }
  parameters.refresh_low();
}

}  // namespace talon
