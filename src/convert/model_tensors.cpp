#include "convert/model_tensors.h"

#include "convert/layer_tensors.h"
#include "convert/same_model.h"
#include "core/error.h"
#include "io/quote.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

std::string doing_of(const Checkpoint& model) {
  return fmt::format("convert {} to GGUF", quote(model.path.string()));
}

std::string architecture_of(const ModelConfig& config, const Checkpoint& model) {
  const std::string_view name = config.image ? "" : gguf_architecture(config);
  if (name.empty()) {
    fail("{}: expected a text model of a family that GGUF has, found {}{}", doing_of(model),
         config.architecture, config.image ? ", which draws" : "");
  }
  return std::string(name);
}

/// The numbers of Apertus' activation, which folders hold as tensors.
void add_xielu_keys(const Checkpoint& model, const ModelConfig& config, GgufMetadata& keys) {
  if (config.plans[0].activation != InputTransform::xielu) return;
  const auto backend = make_keeping_backend(model);
  const LoadOptions options;
  TensorLoader tensors(model, *backend, options);
  LayerLoader layers(tensors, config);
  Json alpha_n = Json::array(), alpha_p = Json::array(), beta = Json::array(), eps = Json::array();
  for (int layer = 0; layer < config.layers; ++layer) {
    const StoredXielu stored = layers.stored_xielu(layer);
    alpha_n.push_back(stored.alpha_n);
    alpha_p.push_back(stored.alpha_p);
    beta.push_back(stored.beta);
    eps.push_back(stored.epsilon);
  }
  keys.emplace_back("xielu.alpha_n", std::move(alpha_n));
  keys.emplace_back("xielu.alpha_p", std::move(alpha_p));
  keys.emplace_back("xielu.beta", std::move(beta));
  keys.emplace_back("xielu.eps", std::move(eps));
}

/// Gemma 4's router, whose factors are stored without the one that the loader adds.
void add_router_scale(TensorLoader& tensors, const std::string& from, const std::string& to,
                      int layer, int hidden, LayerTensors& out) {
  const auto values = tensors.values(fmt::format(fmt::runtime(from), layer), {hidden});
  out.add_values(fmt::format(fmt::runtime(to), layer), {hidden}, values);
}

/// What is left to say where factors are multiplied into matrices, as some files have it.
ModelConfig with_factors_in_matrices(ModelConfig config, std::string_view architecture) {
  for (LayerPlan& plan : config.plans) plan.factors = {};
  if (architecture != "falcon-h1") return config;
  const bool alike = config.embedding_scale == config.logit_scale;
  config.tied_output = config.tied_output && alike;
  config.embedding_scale = config.logit_scale = 1;
  return config;
}

}  // namespace

ModelTensors::ModelTensors(const Checkpoint& model)
    : model_(model),
      config_(read_model_config(model)),
      architecture_(architecture_of(config_, model)),
      said_(with_factors_in_matrices(config_, architecture_)),
      prediction_(find_prediction_layer(model, config_)),
      vectors_(gguf_vectors_of(config_)) {
  leaves_prediction_out_ = prediction_ && !has_prediction_layer(architecture_);
  if (leaves_prediction_out_) prediction_.reset();
  keys_ = gguf_keys_of(said_, architecture_, prediction_.has_value());
  add_xielu_keys(model, config_, keys_);
  target_ = read_target(doing_of(model));
  names_ = TensorNames::of(CheckpointFormat::gguf, target_);
}

/// What tells a reader of GGUF files of the configuration beside keys: that some tensors are there.
Checkpoint ModelTensors::outline() const {
  Checkpoint file;
  file.format = CheckpointFormat::gguf;
  file.path = "the GGUF to be";
  file.metadata = {{"general.architecture", architecture_}};
  for (const auto& [key, value] : keys_) file.metadata[key] = value;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape,
                       std::span<const float> values = {}) {
    file.tensors.push_back({name, StorageType::f32, std::move(shape), std::as_bytes(values)});
  };
  for (const GgufVector& vector : vectors_) {
    add(vector.name, {static_cast<std::int64_t>(vector.values.size())}, vector.values);
  }
  const LayerPlan& first = config_.plans[0];
  add("token_embd.weight", {config_.vocabulary, config_.hidden});
  if (!said_.tied_output) add("output.weight", {config_.vocabulary, config_.hidden});
  if (first.qkv_bias) add("blk.0.attn_q.bias", {first.heads * first.head_dim});
  if (first.output_bias) add("blk.0.attn_output.bias", {config_.hidden});
  if (first.mlp_bias) {
    if (is_gate(first.activation)) add("blk.0.ffn_gate.bias", {first.intermediate});
    add("blk.0.ffn_up.bias", {first.intermediate});
    add("blk.0.ffn_down.bias", {config_.hidden});
  }
  if (first.head_norm != LayerPlan::HeadNorm::none) {
    add("blk.0.attn_q_norm.weight", {first.head_dim});
  }
  const TensorNames from = TensorNames::of(model_.format, config_);
  if (from.ffn_norm != from.attention_norm) add("blk.0.ffn_norm.weight", {config_.hidden});
  for (std::size_t i = 0; i < config_.plans.size(); ++i) {
    const LayerPlan& plan = config_.plans[i];
    const auto add_if = [&](bool has, std::string_view name) {
      if (has) add(fmt::format("blk.{}.{}.weight", i, name), {1});
    };
    add_if(!plan.keys_are_values, "attn_v");
    add_if(plan.sinks, "attn_sinks");
    add_if(plan.experts.count > 0, "ffn_gate_inp");
    if (plan.recurrent.filter_bias) add(fmt::format("blk.{}.ssm_conv1d.bias", i), {1});
    add_if(plan.recurrent.value_heads > 0 && plan.recurrent.norm, "ssm_norm");
  }
  return file;
}

ModelConfig ModelTensors::read_target(const std::string& doing) const {
  ModelConfig target = read_model_config(outline());
  check_same_model(said_, target, doing);
  return target;
}

void ModelTensors::for_each(const Visit& visit) const {
  const auto backend = make_keeping_backend(model_);
  const LoadOptions options;
  TensorLoader tensors(model_, *backend, options);
  LayerLoader layers(tensors, config_);
  show_tables(tensors, layers, *backend, visit);
  for (int layer = 0; layer < config_.layers; ++layer) {
    show_layer(layer, tensors, layers, *backend, visit);
  }
  layers.expect_no_others();
  if (prediction_) show_prediction(tensors, *backend, visit);
  model_.check_whole();
}

/// What belongs to no layer.
void ModelTensors::show_tables(TensorLoader& tensors, LayerLoader& layers, Backend& backend,
                               const Visit& visit) const {
  const TensorNames& from = layers.names();
  const ModelConfig& c = config_;
  LayerTensors out(backend, target_, names_);
  std::vector<std::unique_ptr<Weight>> matrices;
  const auto add = [&](const std::string& name, const std::string& stored, int rows, int cols,
                       float factor = 1) {
    matrices.push_back(tensors.matrix(stored, rows, cols));
    out.add_matrix(name, matrices.back().get(), factor);
  };
  add(names_.embedding, from.embedding, c.vocabulary, c.hidden,
      c.embedding_scale / said_.embedding_scale);
  if (!said_.tied_output) {
    add(names_.output, c.tied_output ? from.embedding : from.output, c.vocabulary, c.hidden,
        c.logit_scale / said_.logit_scale);
  }
  out.add_vector(names_.final_norm + ".weight", layers.norm(from.final_norm + ".weight", c.hidden));
  if (c.final_norm_bias) {
    out.add_vector(names_.final_norm + ".bias",
                   tensors.vector(from.final_norm + ".bias", c.hidden));
  }
  if (c.output_matrix_bias) {
    out.add_vector(names_.output_bias(), tensors.vector(from.output_bias(), c.vocabulary));
  }
  for (const GgufVector& vector : vectors_) {
    out.add_values(vector.name, {static_cast<std::int64_t>(vector.values.size())}, vector.values);
  }
  if (c.per_layer_input > 0) {
    const int width = c.layers * c.per_layer_input;
    add(names_.layer_embedding, from.layer_embedding, c.vocabulary, width);
    add(names_.layer_projection, from.layer_projection, width, c.hidden);
    out.add_vector(names_.layer_projection_norm,
                   tensors.vector(from.layer_projection_norm, c.per_layer_input));
  }
  for (const GgufTensor& tensor : out.tensors()) visit(tensor);
}

void ModelTensors::show_layer(int layer, TensorLoader& tensors, LayerLoader& layers,
                              Backend& backend, const Visit& visit) const {
  const LayerWeights weights = layers.load(layer);
  LayerTensors out(backend, target_, names_);
  out.add_layer(layer, weights, config_.plans[static_cast<std::size_t>(layer)].factors);
  if (config_.plans[static_cast<std::size_t>(layer)].experts.beside_dense) {
    add_router_scale(tensors, layers.names().router_scale, names_.router_scale, layer,
                     config_.hidden, out);
  }
  for (const GgufTensor& tensor : out.tensors()) visit(tensor);
}

void ModelTensors::show_prediction(TensorLoader& tensors, Backend& backend,
                                   const Visit& visit) const {
  const PredictionLayer& from = *prediction_;
  const PredictionLayer to = gguf_prediction_layer(config_);
  const ModelConfig config = prediction_config(config_, from);
  const ModelConfig target = prediction_config(target_, to);
  const int hidden = config.hidden;
  LayerLoader layers(tensors, config);
  const LayerWeights weights = layers.load(from.layer);
  LayerTensors out(backend, target, names_);
  out.add_layer(to.layer, weights);
  std::vector<std::unique_ptr<Weight>> matrices;
  const auto add = [&](const std::string& name, const std::string& stored, int rows, int cols) {
    if (!tensors.has(stored)) return;
    matrices.push_back(tensors.matrix(stored, rows, cols));
    out.add_matrix(name, matrices.back().get());
  };
  add(to.fc, from.fc, hidden, 2 * hidden);
  add(to.embedding, from.embedding, config.vocabulary, hidden);
  add(to.output, from.output, config.vocabulary, hidden);
  out.add_vector(to.embedding_norm, layers.norm(from.embedding_norm, hidden));
  out.add_vector(to.feature_norm, layers.norm(from.feature_norm, hidden));
  out.add_vector(to.output_norm, layers.norm(from.output_norm, hidden));
  for (const GgufTensor& tensor : out.tensors()) visit(tensor);
}

}  // namespace talon
