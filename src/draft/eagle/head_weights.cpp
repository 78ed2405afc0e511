#include "draft/eagle/head_weights.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/thread_pool.h"
#include "draft/eagle/draft_vocabulary.h"
#include "io/quote.h"
#include "model/finite.h"

namespace talon {
namespace {

class HeadLoader {
 public:
  HeadLoader(const Checkpoint& checkpoint, const Model& target, const HeadOptions& options)
      : tensors_(checkpoint),
        target_(target),
        backend_(*target.backend),
        options_(options),
        pool_(available_processors(), /*pin=*/false),
        config_(read_head_config(checkpoint, tensors_)) {}

  HeadWeights load();

 private:
  void load_fusion(HeadWeights& head);
  void load_layer(LayerWeights& layer);
  void load_embedding(HeadWeights& head);
  void load_output(HeadWeights& head);

  std::unique_ptr<Weight> matrix(std::string_view name, WeightLayout layout);
  std::unique_ptr<DeviceBuffer> vector(std::string_view name, bool present = true);
  const StoredTensor& checked(std::string_view name);
  bool equals_target_embedding(const StoredTensor& own);
  std::unique_ptr<DeviceBuffer> upload(std::span<const float> values, int rows, int cols);

  HeadTensors tensors_;
  const Model& target_;
  Backend& backend_;
  const HeadOptions& options_;
  ThreadPool pool_;
  HeadConfig config_;
};

bool is_float(StorageType type) {
  return type == StorageType::f32 || type == StorageType::f16 || type == StorageType::bf16 ||
         type == StorageType::f64;
}

HeadWeights HeadLoader::load() {
  if (!options_.tap_layers.empty()) config_.tap_layers = options_.tap_layers;
  HeadWeights head;
  head.taps = fit_to_target(config_, target_.config, tensors_.doing());
  head.target_token = read_draft_vocabulary(tensors_, target_.config.vocabulary);
  head.backend = &backend_;
  load_embedding(head);
  load_output(head);
  load_fusion(head);
  load_layer(head.layer);
  const int positions = target_.config.context;
  head.rope =
      upload(rope_table(config_.rope, config_.head_dim, positions), positions, config_.head_dim);
  const LayerWeights& layer = head.layer;
  for (const auto* weight :
       {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
    head.row_bytes += (*weight)->bytes;
  }
  head.row_bytes += head.output->bytes;
  if (config_.generation == HeadGeneration::eagle1) head.row_bytes += head.fc->bytes;
  head.config = std::move(config_);
  return head;
}

void HeadLoader::load_fusion(HeadWeights& head) {
  const bool eagle3 = config_.generation == HeadGeneration::eagle3;
  head.fc = matrix("fc.weight", options_.layout);
  head.fc_bias = vector("fc.bias", config_.fc_bias);
  head.fused_norm = vector("input_norm.weight", config_.fused_norm);
  for (std::size_t tap = 0; config_.tap_norms != 0 && tap < head.taps.size(); ++tap) {
    const std::string name = fmt::format("fc_norm.{}.weight", tap);
    tensors_.require(name, {target_.config.hidden});
    head.tap_norms.push_back(vector(name));
  }
  head.embedding_norm =
      vector(eagle3 ? "input_layernorm.weight" : "embedding_norm.weight", config_.embedding_norm);
  head.feature_norm =
      vector(eagle3 ? "hidden_norm.weight" : "feature_norm.weight", config_.feature_norm);
  head.output_norm = vector("norm.weight", config_.output_norm);
}

void HeadLoader::load_layer(LayerWeights& layer) {
  layer.attention_norm = vector("input_layernorm.weight", config_.attention_norm);
  layer.q = matrix("q_proj.weight", options_.layout);
  layer.k = matrix("k_proj.weight", options_.layout);
  layer.v = matrix("v_proj.weight", options_.layout);
  layer.o = matrix("o_proj.weight", options_.layout);
  layer.q_bias = vector("q_proj.bias", config_.qkv_bias);
  layer.k_bias = vector("k_proj.bias", config_.qkv_bias);
  layer.v_bias = vector("v_proj.bias", config_.qkv_bias);
  layer.o_bias = vector("o_proj.bias", config_.output_bias);
  layer.q_norm = vector("q_norm.weight", config_.qk_norm);
  layer.k_norm = vector("k_norm.weight", config_.qk_norm);
  layer.ffn_norm = vector("post_attention_layernorm.weight");
  layer.gate = matrix("gate_proj.weight", options_.layout);
  layer.up = matrix("up_proj.weight", options_.layout);
  layer.down = matrix("down_proj.weight", options_.layout);
}

/// The head's own table wins over the target's; an equal copy, as in all official EAGLE-1 files, is
/// not kept twice.
void HeadLoader::load_embedding(HeadWeights& head) {
  head.embedding = target_.embedding.get();
  if (!config_.own_embedding) return;
  if (!config_.tied_output && equals_target_embedding(checked("embed_tokens.weight"))) return;
  const auto layout = config_.tied_output ? options_.layout : WeightLayout::as_stored;
  head.own_embedding = matrix("embed_tokens.weight", layout);
  head.embedding = head.own_embedding.get();
}

void HeadLoader::load_output(HeadWeights& head) {
  head.output = config_.tied_output ? head.own_embedding.get() : &target_.output_weight();
  if (config_.draft_vocabulary == 0) return;
  const StoredTensor& stored = checked("lm_head.weight");
  StoredMatrix rows{stored.name, stored.type, config_.draft_vocabulary, config_.hidden,
                    stored.bytes};
  std::vector<std::byte> chosen;  // a token_map beside a full matrix chooses rows of it
  const std::size_t row_bytes = stored.bytes.size() / static_cast<std::size_t>(stored.shape[0]);
  if (stored.shape[0] != config_.draft_vocabulary) {
    chosen.resize(row_bytes * head.target_token.size());
    for (std::size_t i = 0; i < head.target_token.size(); ++i) {
      const auto from = static_cast<std::size_t>(head.target_token[i]);
      if (from >= static_cast<std::size_t>(stored.shape[0])) {
        fail("{}: {}: expected a row for token {}, found {} rows", tensors_.doing(),
             quote(stored.name), from, stored.shape[0]);
      }
      std::memcpy(chosen.data() + i * row_bytes, stored.bytes.data() + from * row_bytes, row_bytes);
    }
    rows.bytes = chosen;
  }
  head.own_output = backend_.load_weight(rows, options_.layout);
  head.output = head.own_output.get();
}

/// A tensor whose type and values have been looked at; read_head_config() has seen its shape.
const StoredTensor& HeadLoader::checked(std::string_view name) {
  const StoredTensor& tensor = tensors_.require(name);
  if (!is_float(tensor.type)) {
    fail("{}: {}: expected f32, f16, bf16 or f64, found {}", tensors_.doing(), quote(tensor.name),
         name_of(tensor.type));
  }
  if (const auto value = find_not_finite(tensor.type, tensor.bytes, pool_)) {
    fail("{}: {}: expected finite values, found NaN or infinity at value {}", tensors_.doing(),
         quote(tensor.name), *value);
  }
  return tensor;
}

std::unique_ptr<Weight> HeadLoader::matrix(std::string_view name, WeightLayout layout) {
  const StoredTensor& tensor = checked(name);
  return backend_.load_weight({tensor.name, tensor.type, static_cast<int>(tensor.shape[0]),
                               static_cast<int>(tensor.shape[1]), tensor.bytes},
                              layout);
}

std::unique_ptr<DeviceBuffer> HeadLoader::vector(std::string_view name, bool present) {
  if (!present) return nullptr;
  const StoredTensor& tensor = checked(name);
  std::vector<float> values(static_cast<std::size_t>(tensor.shape[0]));
  dequantize(tensor.type, tensor.bytes, values);
  return upload(values, 1, static_cast<int>(values.size()));
}

bool HeadLoader::equals_target_embedding(const StoredTensor& own) {
  constexpr int kChunk = 1024;
  const Weight& table = *target_.embedding;
  if (own.shape[0] != table.rows || own.shape[1] != table.cols) return false;
  const auto buffer = backend_.allocate(kChunk, table.cols);
  const std::size_t row_bytes = own.bytes.size() / static_cast<std::size_t>(table.rows);
  for (int first = 0; first < table.rows; first += kChunk) {
    const int rows = std::min(kChunk, table.rows - first);
    std::vector<TokenId> tokens(static_cast<std::size_t>(rows));
    std::iota(tokens.begin(), tokens.end(), first);
    const View view = buffer->view().row_range(0, rows);
    backend_.embed(table, tokens, view);
    std::vector<float> theirs(tokens.size() * static_cast<std::size_t>(table.cols));
    std::vector<float> ours(theirs.size());
    backend_.download(view, theirs);
    dequantize(
        own.type,
        own.bytes.subspan(static_cast<std::size_t>(first) * row_bytes, tokens.size() * row_bytes),
        ours);
    if (theirs != ours) return false;
  }
  return true;
}

std::unique_ptr<DeviceBuffer> HeadLoader::upload(std::span<const float> values, int rows,
                                                 int cols) {
  auto buffer = backend_.allocate(rows, cols);
  backend_.upload(values, buffer->view());
  return buffer;
}

}  // namespace

HeadWeights load_head(const Checkpoint& checkpoint, const Model& target,
                      const HeadOptions& options) {
  return HeadLoader(checkpoint, target, options).load();
}

}  // namespace talon
