#include "draft/head/head_weights.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "backend/index_list.h"
#include "core/error.h"
#include "draft/head/draft_vocabulary.h"
#include "draft/weight_reader.h"
#include "io/quote.h"
#include "model/rope.h"
#include "model/rotary_order.h"

namespace talon {
namespace {

constexpr int kRowsAtOnce = 1024;

void add_bytes(const LayerWeights& layer, std::size_t& bytes) {
  for (const auto* weight :
       {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
    bytes += (*weight)->bytes;
  }
}

/// Where the values of each head lie in a norm with fewer rows than heads, in the order `rows` of
/// the values of all heads; empty: one after the other.
std::vector<std::int32_t> order_by_head(const StoredTensor& norm, int heads,
                                        std::span<const std::int32_t> rows) {
  const auto parts = static_cast<int>(norm.shape[0]), head_dim = static_cast<int>(norm.shape[1]);
  std::vector<std::int32_t> order;
  for (int i = 0; i < heads * head_dim; ++i) {
    const int value = rows.empty() ? i : rows[static_cast<std::size_t>(i)];
    const int part = value / head_dim / (heads / parts);
    order.push_back(part * head_dim + value % head_dim);
  }
  return order;
}

class HeadLoader {
 public:
  HeadLoader(const Checkpoint& checkpoint, const Model& target, const HeadOptions& options)
      : tensors_(checkpoint),
        target_(target),
        backend_(*target.backend),
        options_(options),
        reader_(tensors_, backend_),
        config_(read_head_config(checkpoint, tensors_)) {}

  HeadWeights load();

 private:
  void load_fusion(HeadWeights& head);
  void load_layer(const std::string& prefix, LayerWeights& layer);
  void load_embedding(HeadWeights& head);
  void load_output(HeadWeights& head);

  std::unique_ptr<Weight> matrix(std::string_view name,
                                 std::span<const std::int32_t> row_order = {}) {
    const StoredTensor* stored = tensors_.find(name);  // none: the reader says so
    return reader_.matrix(name, stored ? layout_of(stored->type) : options_.layout, row_order);
  }
  WeightLayout layout_of(StorageType type) const;
  Buffer vector(std::string_view name, bool present = true) {
    return reader_.vector(name, present);
  }
  std::unique_ptr<Weight> join_prompts(const StoredTensor& own);
  std::vector<float> rows_of(const Weight& table, std::span<const TokenId> tokens);
  bool equals_target_embedding(const StoredTensor& own);

  HeadTensors tensors_;
  const Model& target_;
  Backend& backend_;
  const HeadOptions& options_;
  WeightReader reader_;
  HeadConfig config_;
};

HeadWeights HeadLoader::load() {
  if (!options_.tap_layers.empty()) {
    config_.tap_layers = options_.tap_layers;
    config_.tap_count = TapCount::sure;
  }
  HeadWeights head;
  head.taps = fit_to_target(config_, target_.config, tensors_.doing());
  // Cells turn as in the target, whatever the configuration says.
  if (target_.config.image) config_.rope = target_.config.rope;
  config_.interleaved_rope = has_pairwise_rows(config_, target_.config);
  choose_divisors(config_.rope, target_.config.context);
  head.target_token = read_draft_vocabulary(tensors_, target_.config.vocabulary);
  head.backend = &backend_;
  load_embedding(head);
  load_fusion(head);
  load_layer("", head.layer);
  add_bytes(head.layer, head.pass_bytes);
  for (int i = 1; i <= config_.further_layers; ++i) {
    load_layer(fmt::format("layers.{}.", i), head.further_layers.emplace_back());
    add_bytes(head.further_layers.back(), head.pass_bytes);
  }
  load_output(head);
  head.logit_form = config_.logit_form.beside(target_.config, config_.has_rows_of_target());
  head.pass_bytes += head.output->bytes;
  if (config_.generation == HeadGeneration::eagle1) head.pass_bytes += head.fc->bytes;
  head.config = std::move(config_);
  return head;
}

void HeadLoader::load_fusion(HeadWeights& head) {
  const bool eagle3 = config_.generation != HeadGeneration::eagle1;
  head.fc = matrix("fc.weight");
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
  if (config_.generation == HeadGeneration::peagle) {
    const StoredTensor& mask = reader_.checked("mask_hidden");
    std::vector<float> values(static_cast<std::size_t>(config_.feature_width));
    dequantize(mask.type, mask.bytes, values);
    head.mask_features = reader_.upload(values, 1, config_.feature_width);
  }
}

WeightLayout HeadLoader::layout_of(StorageType type) const {
  const bool is_small = type == StorageType::q4_0 || type == StorageType::q4_1;
  return options_.mixed && is_small ? WeightLayout::as_stored : options_.layout;
}

/// prefix: empty for the first layer, whose tensors have the common names.
void HeadLoader::load_layer(const std::string& prefix, LayerWeights& layer) {
  const bool first = prefix.empty();
  const std::string attention = first ? "" : prefix + "self_attn.",
                    mlp = first ? "" : prefix + "mlp.";
  layer.attention_norm =
      vector(prefix + "input_layernorm.weight", config_.attention_norm || !first);
  const auto rows = [&](int heads) {
    return config_.interleaved_rope ? half_split_order(heads, config_.head_dim)
                                    : std::vector<std::int32_t>();
  };
  const auto q_rows = rows(config_.heads), k_rows = rows(config_.kv_heads);
  layer.q = matrix(attention + "q_proj.weight", q_rows);
  layer.k = matrix(attention + "k_proj.weight", k_rows);
  layer.v = matrix(attention + "v_proj.weight");
  layer.o = matrix(attention + "o_proj.weight");
  layer.q_bias = reader_.vector(attention + "q_proj.bias", config_.qkv_bias, q_rows);
  layer.k_bias = reader_.vector(attention + "k_proj.bias", config_.qkv_bias, k_rows);
  layer.v_bias = vector(attention + "v_proj.bias", config_.qkv_bias);
  layer.o_bias = vector(attention + "o_proj.bias", config_.output_bias);
  const bool by_head = config_.head_layer_norms;
  const auto norm = [&](const std::string& part, int heads, bool present) {
    const std::string name = attention + part;
    if (!by_head) return reader_.vector(name, present);
    return reader_.vector(name, true, order_by_head(tensors_.require(name), heads, rows(heads)));
  };
  layer.q_norm = norm("q_norm.weight", config_.heads, config_.qk_norm);
  layer.k_norm = norm("k_norm.weight", config_.kv_heads, config_.qk_norm);
  layer.q_norm_bias = norm("q_norm.bias", config_.heads, false);
  layer.k_norm_bias = norm("k_norm.bias", config_.kv_heads, false);
  layer.ffn_norm = vector(prefix + "post_attention_layernorm.weight");
  layer.gate = matrix(mlp + "gate_proj.weight");
  layer.up = matrix(mlp + "up_proj.weight");
  layer.down = matrix(mlp + "down_proj.weight");
  layer.gate_bias = vector(mlp + "gate_proj.bias", config_.mlp_bias);
  layer.up_bias = vector(mlp + "up_proj.bias", config_.mlp_bias);
  layer.down_bias = vector(mlp + "down_proj.bias", config_.mlp_bias);
}

/// The head's own table wins over the target's; an equal copy, as in all official EAGLE-1 files, is
/// not kept twice.
void HeadLoader::load_embedding(HeadWeights& head) {
  head.embedding = target_.embedding.get();
  if (!config_.own_embedding) return;
  if (!config_.tied_output && equals_target_embedding(reader_.checked("embed_tokens.weight")))
    return;
  const auto layout = config_.tied_output ? layout_of(tensors_.require("embed_tokens.weight").type)
                                          : WeightLayout::as_stored;
  if (target_.config.image && target_.config.image->prompt_tokens > 1 &&
      config_.vocabulary != target_.config.input_count()) {
    head.own_embedding = join_prompts(reader_.checked("embed_tokens.weight"));
    head.embedding = head.own_embedding.get();
    head.reads_captions = target_.config.image->prompt != ImagePlan::Prompt::caption;
    return;
  }
  head.own_embedding = reader_.matrix("embed_tokens.weight", layout);
  head.embedding = head.own_embedding.get();
}

/// After the layers, whose bytes are in pass_bytes.
void HeadLoader::load_output(HeadWeights& head) {
  head.output = config_.tied_output ? head.own_embedding.get() : &target_.output_weight();
  if (config_.draft_vocabulary == 0) return;
  const auto weights =
      static_cast<std::size_t>(config_.draft_vocabulary) * static_cast<std::size_t>(config_.hidden);
  const bool small = options_.mixed && weights > head.pass_bytes;
  const auto layout_from = [&](StorageType type) {
    return small ? WeightLayout::int4 : layout_of(type);
  };
  if (config_.shared_output) {
    const auto rows = rows_of(*head.output, head.target_token);
    head.own_output = backend_.load_weight({"lm_head.weight",
                                            StorageType::f32,
                                            config_.draft_vocabulary,
                                            config_.hidden,
                                            std::as_bytes(std::span(rows)),
                                            {}},
                                           layout_from(StorageType::f32));
    head.output = head.own_output.get();
    return;
  }
  const StoredTensor& stored = reader_.checked("lm_head.weight");
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
  head.own_output = backend_.load_weight(rows, layout_from(rows.type));
  head.output = head.own_output.get();
}

/// A table for codes alone, or for the vocabulary that they share with texts (LANTERN,
/// arXiv:2410.03355), as the target's inputs lie: where the head has none for prompts, those of
/// captions are that of code 0, with which it was trained in their place, others the target's own.
std::unique_ptr<Weight> HeadLoader::join_prompts(const StoredTensor& own) {
  const ModelConfig& c = target_.config;
  const ImagePlan& image = *c.image;
  const auto width = static_cast<std::size_t>(c.hidden);
  std::vector<float> stored(static_cast<std::size_t>(own.shape[0]) * width), rows;
  dequantize(own.type, own.bytes, stored);
  const auto row = [&](int index) {
    return stored.begin() + static_cast<std::ptrdiff_t>(index) * c.hidden;
  };
  const auto add = [&](int first, int count) {
    rows.insert(rows.end(), row(first), row(first + count));
  };
  if (image.first_code >= 0) {
    add(image.first_code, c.vocabulary - (image.row_end < 0 ? 0 : 1));
    if (image.row_end >= 0) add(image.stored_row_end, 1);
    add(0, image.text_tokens);
  } else if (image.prompt == ImagePlan::Prompt::caption) {
    add(0, c.vocabulary);
    for (int prompt = c.vocabulary; prompt < c.input_count(); ++prompt) add(0, 1);
  } else {
    add(0, c.vocabulary);
    const int prompts = c.input_count() - c.vocabulary;
    std::vector<TokenId> tokens(static_cast<std::size_t>(prompts));
    std::iota(tokens.begin(), tokens.end(), c.vocabulary);
    const auto theirs = rows_of(*target_.embedding, tokens);
    rows.insert(rows.end(), theirs.begin(), theirs.end());
  }
  return backend_.load_weight(
      {own.name, StorageType::f32, c.input_count(), c.hidden, std::as_bytes(std::span(rows)), {}},
      WeightLayout::as_stored);
}

bool HeadLoader::equals_target_embedding(const StoredTensor& own) {
  const Weight& table = *target_.embedding;
  if (own.shape[0] != table.rows || own.shape[1] != table.cols) return false;
  const std::size_t row_bytes = own.bytes.size() / static_cast<std::size_t>(table.rows);
  for (int first = 0; first < table.rows; first += kRowsAtOnce) {
    std::vector<TokenId> tokens(
        static_cast<std::size_t>(std::min(kRowsAtOnce, table.rows - first)));
    std::iota(tokens.begin(), tokens.end(), first);
    const auto theirs = rows_of(table, tokens);
    std::vector<float> ours(theirs.size());
    dequantize(
        own.type,
        own.bytes.subspan(static_cast<std::size_t>(first) * row_bytes, tokens.size() * row_bytes),
        ours);
    if (theirs != ours) return false;
  }
  return true;
}

/// Rows of a table on the backend: [tokens, columns of the table].
std::vector<float> HeadLoader::rows_of(const Weight& table, std::span<const TokenId> tokens) {
  const auto width = static_cast<std::size_t>(table.cols);
  std::vector<float> rows(tokens.size() * width);
  IndexList ids(backend_);
  const auto most = std::min(tokens.size(), static_cast<std::size_t>(kRowsAtOnce));
  const auto buffer = backend_.allocate(static_cast<int>(most), table.cols);
  for (std::size_t first = 0; first < tokens.size(); first += most) {
    const std::size_t count = std::min(most, tokens.size() - first);
    const View view = buffer.rows(static_cast<int>(count));
    backend_.embed(table, ids.put(tokens.subspan(first, count)), view);
    backend_.download(view, std::span(rows).subspan(first * width, count * width));
  }
  return rows;
}

}  // namespace

KvShape HeadWeights::cache_page() const {
  KvShape page{1 + static_cast<int>(further_layers.size()), config.kv_heads, config.head_dim, 1,
               KvType::f32};
  if (plan) page.widths = {{page.kv_heads, page.head_dim, plan->values()}};
  return page;
}

HeadWeights load_head(const Checkpoint& checkpoint, const Model& target,
                      const HeadOptions& options) {
  HeadWeights head = HeadLoader(checkpoint, target, options).load();
  head.source = checkpoint.path;
  return head;
}

}  // namespace talon
