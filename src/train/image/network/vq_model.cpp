#include "train/image/network/vq_model.h"

#include <cmath>

#include "train/image/network/picture_functions.h"

namespace talon {

using torch::Tensor;

Tensor unit_rows(const Tensor& x) {
  return x / at::norm(x, 2, {1}, /*keepdim=*/true).clamp_min(1e-12);
}

Tensor VqModel::conv(const std::string& name, const Tensor& x) const {
  const Parameter& weight = parameters_[name + ".weight"];
  return convolve(x, weight, parameters_[name + ".bias"], /*stride=*/1, weight.value.size(2) / 2);
}

Tensor VqModel::norm(const std::string& name, const Tensor& x, bool silu) const {
  return group_norm(
      x,
      {.weight = parameters_[name + ".weight"], .bias = parameters_[name + ".bias"], .silu = silu});
}

Tensor VqModel::block(const std::string& name, const Tensor& x) const {
  const Tensor inner = conv(name + ".conv1", norm(name + ".norm1", x, true));
  const Tensor added = conv(name + ".conv2", norm(name + ".norm2", inner, true));
  const std::string shortcut = name + ".nin_shortcut";
  return (parameters_.has(shortcut + ".weight") ? conv(shortcut, x) : x) + added;
}

Tensor VqModel::attention(const std::string& name, const Tensor& x) const {
  const std::int64_t b = x.size(0), c = x.size(1), cells = x.size(2) * x.size(3);
  const Tensor normed = norm(name + ".norm", x, false);
  const auto part = [&](const char* which) {
    return conv(name + which, normed).reshape({b, c, cells});
  };
  const Tensor q = part(".q").transpose(1, 2), k = part(".k"), v = part(".v");
  const Tensor scores = at::bmm(q, k) * (1 / std::sqrt(static_cast<double>(c)));
  const Tensor weights = at::softmax(scores, 2);
  const Tensor seen = at::bmm(v, weights.transpose(1, 2)).reshape(x.sizes());
  return x + conv(name + ".proj_out", seen);
}

Tensor VqModel::middle(const std::string& name, Tensor x) const {
  x = block(name + ".mid.0", x);
  x = attention(name + ".mid.1", x);
  return block(name + ".mid.2", x);
}

Tensor VqModel::blocks(const std::string& name, Tensor x, int count, bool attend) const {
  for (int i = 0; i < count; ++i) {
    x = block(name + ".res." + std::to_string(i), x);
    if (attend) x = attention(name + ".attn." + std::to_string(i), x);
  }
  return x;
}

Tensor VqModel::encode(const Tensor& pictures) const {
  Tensor x = conv("encoder.conv_in", pictures.to(low_type()));
  for (int level = 0; level < shape_.levels(); ++level) {
    const std::string name = "encoder.conv_blocks." + std::to_string(level);
    const bool last = level + 1 == shape_.levels();
    x = blocks(name, x, shape_.blocks, last);
    if (last) continue;
    const std::string down = name + ".downsample.conv";
    x = convolve(at::constant_pad_nd(x, {0, 1, 0, 1}), parameters_[down + ".weight"],
                 parameters_[down + ".bias"], /*stride=*/2, /*padding=*/0);
  }
  x = conv("encoder.conv_out", norm("encoder.norm_out", middle("encoder", x), true));
  const Tensor vectors = conv("quant_conv", x).permute({0, 2, 3, 1});
  return unit_rows(vectors.reshape({-1, shape_.code_width}).to(parameters_.values().scalar_type()));
}

Tensor VqModel::decode(const Tensor& vectors, std::int64_t batch) const {
  const auto side = static_cast<std::int64_t>(
      std::lround(std::sqrt(static_cast<double>(vectors.size(0) / batch))));
  const Tensor grid = vectors.to(low_type())
                          .view({batch, side, side, shape_.code_width})
                          .permute({0, 3, 1, 2})
                          .contiguous();
  Tensor x = middle("decoder", conv("decoder.conv_in", conv("post_quant_conv", grid)));
  for (int i = 0; i < shape_.levels(); ++i) {
    const std::string name = "decoder.conv_blocks." + std::to_string(i);
    x = blocks(name, x, shape_.blocks + 1, i == 0);
    if (i + 1 < shape_.levels()) x = conv(name + ".upsample.conv", double_size(x));
  }
  return conv("decoder.conv_out", norm("decoder.norm_out", x, true));
}

}  // namespace talon
