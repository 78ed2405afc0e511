#include "model/load/load_pictures.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

constexpr int kRowsAtOnce = 1024;

/// A network of two matrices with a gelu between, each with a bias or none.
struct TwoLayers {
  const Weight& first;
  View first_bias;
  InputTransform gelu;
  const Weight& second;
  View second_bias;

  /// input: [rows, width], row after row.
  std::vector<float> operator()(Backend& backend, std::span<const float> input, int rows) const {
    expects(input.size() == static_cast<std::size_t>(rows) * static_cast<std::size_t>(first.cols),
            "rows as wide as the first matrix");
    const int most = std::min(rows, kRowsAtOnce);
    const Buffer in = backend.allocate(most, first.cols),
                 between = backend.allocate(most, first.rows),
                 out = backend.allocate(most, second.rows);
    std::vector<float> result(static_cast<std::size_t>(rows) *
                              static_cast<std::size_t>(second.rows));
    for (int row = 0; row < rows; row += most) {
      const int count = std::min(most, rows - row);
      const auto part = [&](auto values, int width) {
        return values.subspan(static_cast<std::size_t>(row) * static_cast<std::size_t>(width),
                              static_cast<std::size_t>(count) * static_cast<std::size_t>(width));
      };
      backend.upload(part(input, first.cols), in.rows(count));
      const Projection a[] = {{&first, between.rows(count), first_bias}};
      backend.linear({.input = in.rows(count), .outputs = a});
      const Projection b[] = {{&second, out.rows(count), second_bias}};
      backend.linear({.input = between.rows(count), .transform = gelu, .outputs = b});
      backend.download(out.rows(count), part(std::span<float>(result), second.rows));
    }
    return result;
  }
};

/// The table of inputs in float32: codes, then prompts.
std::unique_ptr<Weight> join(TensorLoader& tensors, const std::string& name,
                             std::vector<float> rows, std::span<const float> prompts,
                             const ModelConfig& config) {
  rows.insert(rows.end(), prompts.begin(), prompts.end());
  return tensors.made_matrix(
      {name, StorageType::f32, config.inputs, config.hidden, std::as_bytes(std::span(rows)), {}});
}

/// Rows of null captions are as the guide reads them.
std::vector<float> load_captions(TensorLoader& tensors, const TensorNames& names, Model& model) {
  const ModelConfig& c = model.config;
  const int rows = c.inputs - c.vocabulary;
  const auto width =
      static_cast<int>(tensors.checkpoint().require(names.null_caption).shape.back());
  model.caption_in = tensors.float_matrix(names.captions + "fc1.weight", c.hidden, width);
  model.caption_out = tensors.float_matrix(names.captions + "fc2.weight", c.hidden, c.hidden);
  return project_caption(model, tensors.values(names.null_caption, {rows, width}), rows);
}

/// Janus: what stands for a code goes through a network of its own on the way in, which is done
/// here once.
std::vector<float> load_aligned_codes(TensorLoader& tensors, const Model& model) {
  const ModelConfig& c = model.config;
  const std::string codes = "gen_embed.weight", aligner = "gen_aligner.layers.";
  const std::string third = aligner + "4.weight";
  if (tensors.has(third)) {
    fail("load \"{}\": expected two layers of the aligner, found more", third);
  }
  const auto width = static_cast<int>(tensors.checkpoint().require(codes).shape.back());
  const auto first = tensors.float_matrix(aligner + "0.weight", c.hidden, width);
  const Buffer first_bias = tensors.vector(aligner + "0.bias", c.hidden);
  const auto second = tensors.float_matrix(aligner + "2.weight", c.hidden, c.hidden);
  const Buffer second_bias = tensors.vector(aligner + "2.bias", c.hidden);
  const TwoLayers network{*first, first_bias.view(), InputTransform::gelu_erf, *second,
                          second_bias.view()};
  return network(*model.backend, tensors.values(codes, {c.vocabulary, width}), c.vocabulary);
}

void load_janus_output(TensorLoader& tensors, const TensorNames& names, Model& model) {
  const ModelConfig& c = model.config;
  const std::string inner = "gen_head.output_mlp_projector.";
  const StoredTensor& stored = tensors.checkpoint().require(inner + "weight");
  const std::int64_t width = stored.shape.empty() ? 0 : stored.shape[0];
  if (width < 1 || width > ConfigLimits::kWidth) {
    fail("load \"{}weight\": expected 1 to {} rows, found {}", inner,
         static_cast<int>(ConfigLimits::kWidth), width);
  }
  model.output_inner = tensors.matrix(inner + "weight", static_cast<int>(width), c.hidden);
  model.output_inner_bias = tensors.vector(inner + "bias", static_cast<int>(width));
  model.output = tensors.matrix(names.output, c.vocabulary, static_cast<int>(width));
  model.output_bias = tensors.vector("gen_head.vision_head.bias", c.vocabulary);
}

/// Rows of the files' vocabulary: those of answers, then for the inputs all.
std::vector<std::int32_t> rows_of_inputs(const ModelConfig& config) {
  const ImagePlan& image = *config.image;
  std::vector<std::int32_t> rows(static_cast<std::size_t>(config.inputs));
  const auto prompts = rows.begin() + config.vocabulary;
  std::iota(rows.begin(), prompts, image.first_code);
  if (image.row_end >= 0) rows[static_cast<std::size_t>(image.row_end)] = image.stored_row_end;
  std::iota(prompts, rows.end(), 0);
  return rows;
}

}  // namespace

std::vector<float> project_caption(const Model& model, std::span<const float> features, int rows) {
  expects(model.caption_in && model.caption_out, "a model of captions");
  const TwoLayers network{*model.caption_in, {}, InputTransform::gelu_tanh, *model.caption_out, {}};
  return network(*model.backend, features, rows);
}

void load_picture_tables(TensorLoader& tensors, const TensorNames& names, Model& model) {
  using Prompt = ImagePlan::Prompt;
  const ModelConfig& c = model.config;
  const ImagePlan& image = *c.image;
  if (image.first_code >= 0) {
    const std::vector<std::int32_t> rows = rows_of_inputs(c);
    model.embedding =
        tensors.matrix(names.embedding, c.inputs, c.hidden, {0, image.text_tokens, rows});
    tensors.forget_weight_bytes(0);
    const auto answers = std::span(rows).first(static_cast<std::size_t>(c.vocabulary));
    model.output =
        tensors.matrix(names.output, c.vocabulary, c.hidden, {0, image.text_tokens, answers});
    return;
  }
  if (image.prompt == Prompt::janus) {
    model.embedding = join(tensors, names.embedding, load_aligned_codes(tensors, model),
                           tensors.values(names.embedding, {image.text_tokens, c.hidden}), c);
    tensors.forget_weight_bytes(0);
    return load_janus_output(tensors, names, model);
  }
  const std::vector<float> prompts =
      image.prompt == Prompt::caption
          ? load_captions(tensors, names, model)
          : tensors.values(names.prompts, {c.inputs - c.vocabulary, c.hidden});
  model.embedding = join(tensors, names.embedding,
                         tensors.values(names.embedding, {c.vocabulary, c.hidden}), prompts, c);
  tensors.forget_weight_bytes(0);  // one row of the table is read, not all of it
  model.output = tensors.matrix(names.output, c.vocabulary, c.hidden);
}

}  // namespace talon
