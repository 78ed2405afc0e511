#include "train/image/network/image_model.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

#include "train/head/math/functions.h"
#include "train/image/network/picture_functions.h"

namespace talon {
namespace {

using torch::Tensor;

std::string in_layer(int index, const char* name) {
  return "layers." + std::to_string(index) + "." + name;
}

/// The angles of all rows, [rows, head_dim / 2].
Tensor angles_of(const ImageModelShape& shape) {
  const int quarter = shape.head_dim / 4;
  Tensor angles = torch::zeros({shape.rows(), 2 * quarter}, torch::kDouble);
  auto at = angles.accessor<double, 2>();
  for (int cell = 0; cell < shape.cells() - 1; ++cell) {
    for (int j = 0; j < quarter; ++j) {
      const double frequency = std::pow(shape.rope_base, -static_cast<double>(j) / quarter);
      at[shape.prefix + cell][j] = (cell / shape.grid) * frequency;
      at[shape.prefix + cell][quarter + j] = (cell % shape.grid) * frequency;
    }
  }
  return angles;
}

/// Of the place `index` in the forward pass: branches leave out different numbers.
Tensor drop_at(int index, const Tensor& x, const ImageModel::Dropout& dropout) {
  return drop(x, dropout.share, dropout.seed ^ (static_cast<std::uint64_t>(index) << 48));
}

/// Rows of pairs (i, i + d/2) of each head become rows of pairs (2i, 2i + 1).
Tensor interleaved(const Tensor& rows, int head_dim) {
  return rows.view({-1, 2, head_dim / 2, rows.size(1)}).transpose(1, 2).reshape(rows.sizes());
}

}  // namespace

int usual_intermediate(int hidden) { return (8 * hidden / 3 + 255) / 256 * 256; }

std::vector<ParameterStore::Shape> parameter_shapes(const ImageModelShape& shape) {
  const std::int64_t d = shape.hidden, f = shape.intermediate;
  std::vector<ParameterStore::Shape> shapes = {{"tok_embeddings", {shape.codes, d}},
                                               {"prompt", {shape.prompt_rows, d}}};
  for (int i = 0; i < shape.layers; ++i) {
    shapes.push_back({in_layer(i, "attention_norm"), {d}});
    shapes.push_back({in_layer(i, "qkv"), {3 * d, d}});
    shapes.push_back({in_layer(i, "wo"), {d, d}});
    shapes.push_back({in_layer(i, "ffn_norm"), {d}});
    shapes.push_back({in_layer(i, "gate_up"), {2 * f, d}});
    shapes.push_back({in_layer(i, "down"), {d, f}});
  }
  shapes.push_back({"norm", {d}});
  shapes.push_back({"output", {shape.codes, d}});
  return shapes;
}

void set_initial_values(ParameterStore& parameters, const ImageModelShape& shape,
                        std::uint64_t seed) {
  constexpr double kSize = 0.02;  // as LlamaGen
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (const std::string& name : parameters.names()) {
    const Tensor& value = parameters[name].value;
    if (value.dim() == 1) {
      parameters.set(name, torch::ones(value.sizes()));
      continue;
    }
    const bool ends_branch = name.ends_with("wo") || name.ends_with("down");
    const double size = ends_branch ? kSize / std::sqrt(2.0 * shape.layers) : kSize;
    parameters.set(name, torch::empty(value.sizes(), torch::kFloat).normal_(0, size, generator));
  }
  parameters.refresh_low();
}

ImageModel::ImageModel(ImageModelShape shape, const ParameterStore& parameters)
    : shape_(shape), parameters_(parameters) {
  const Tensor angles = angles_of(shape_);
  const auto wide = parameters["output"].value.scalar_type();
  cosine_ = angles.cos().to(wide);
  sine_ = angles.sin().to(wide);
}

Tensor ImageModel::forward(const ImageBatch& batch) const { return forward(batch, {}); }

Tensor ImageModel::layer(int index, const Tensor& x, Dropout dropout) const {
  const ParameterStore& p = parameters_;
  const auto low = p["output"].low.scalar_type(), wide = x.scalar_type();
  const Tensor normed = rms_norm(x, p[in_layer(index, "attention_norm")], shape_.norm_epsilon, low);
  const Tensor seen =
      attend_pictures(linear(normed, p[in_layer(index, "qkv")]), cosine_, sine_, shape_.head_dim);
  const Tensor attended = linear(seen, p[in_layer(index, "wo")]).to(wide);
  const Tensor h = x + drop_at(2 * index + 1, attended, dropout);
  const Tensor inner = linear(rms_norm(h, p[in_layer(index, "ffn_norm")], shape_.norm_epsilon, low),
                              p[in_layer(index, "gate_up")]);
  const Tensor fed = linear(silu_gate(inner), p[in_layer(index, "down")]).to(wide);
  return h + drop_at(2 * index + 2, fed, dropout);
}

Tensor ImageModel::forward(const ImageBatch& batch, Dropout dropout) const {
  const ParameterStore& p = parameters_;
  const std::int64_t count = batch.codes.size(0), d = shape_.hidden, rows = shape_.rows();
  const Tensor words = at::embedding(p["prompt"].value, batch.prompts);
  const Tensor read = batch.codes.narrow(1, 0, shape_.cells() - 1);
  const Tensor cells = at::embedding(p["tok_embeddings"].value, read);
  Tensor x = drop_at(0, at::cat({words, cells}, 1).view({count * rows, d}), dropout);
  for (int i = 0; i < shape_.layers; ++i) x = layer(i, x, dropout);
  const Tensor predicting = x.view({count, rows, d})
                                .narrow(1, shape_.prefix - 1, shape_.cells())
                                .reshape({count * shape_.cells(), d});
  const Tensor normed =
      rms_norm(predicting, p["norm"], shape_.norm_epsilon, p["output"].low.scalar_type());
  return linear(normed, p["output"]).to(x.scalar_type());
}

std::vector<std::pair<std::string, Tensor>> llamagen_tensors(const ParameterStore& parameters,
                                                             const ImageModelShape& shape) {
  const auto value = [&](const std::string& name) { return parameters[name].value.detach(); };
  std::vector<std::pair<std::string, Tensor>> tensors = {
      {"tok_embeddings.weight", value("tok_embeddings")}, {kPromptTable, value("prompt")}};
  for (int i = 0; i < shape.layers; ++i) {
    const auto qkv = value(in_layer(i, "qkv")).chunk(3, 0);
    const auto gate_up = value(in_layer(i, "gate_up")).chunk(2, 0);
    const auto add = [&](const char* name, const Tensor& tensor) {
      tensors.emplace_back(in_layer(i, name), tensor);
    };
    add("attention.wqkv.weight", at::cat({interleaved(qkv[0], shape.head_dim),
                                          interleaved(qkv[1], shape.head_dim), qkv[2]}));
    add("attention.wo.weight", value(in_layer(i, "wo")));
    add("attention_norm.weight", value(in_layer(i, "attention_norm")));
    add("ffn_norm.weight", value(in_layer(i, "ffn_norm")));
    add("feed_forward.w1.weight", gate_up[0]);
    add("feed_forward.w3.weight", gate_up[1]);
    add("feed_forward.w2.weight", value(in_layer(i, "down")));
  }
  tensors.emplace_back("norm.weight", value("norm"));
  tensors.emplace_back("output.weight", value("output"));
  return tensors;
}

}  // namespace talon
