#include "draft/head/gguf_head.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "draft/head/draft_vocabulary.h"
#include "draft/head/head_config.h"
#include "draft/head/head_tensors.h"
#include "io/formats/write_gguf.h"
#include "io/quote.h"
#include "io/tensor_layout.h"
#include "model/config/config_readers.h"
#include "model/rope.h"
#include "model/rotary_order.h"

namespace talon {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;
using Scaling = RopeConfig::Scaling;

/// What each frequency is divided by, where it is.
constexpr const char* kFrequencyFactors = "rope_freqs.weight";

/// Common name and name in the file, in the file's order.
constexpr Pair kHeadNames[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"fc.weight", "fc.weight"},
    {"fc.bias", "fc.bias"},
    {"input_norm.weight", "enc.output_norm.weight"},
    {"input_layernorm.weight", "blk.0.attn_norm.weight"},
    {"hidden_norm.weight", "blk.0.attn_norm_2.weight"},
    {"q_proj.weight", "blk.0.attn_q.weight"},
    {"k_proj.weight", "blk.0.attn_k.weight"},
    {"v_proj.weight", "blk.0.attn_v.weight"},
    {"q_proj.bias", "blk.0.attn_q.bias"},
    {"k_proj.bias", "blk.0.attn_k.bias"},
    {"v_proj.bias", "blk.0.attn_v.bias"},
    {"o_proj.weight", "blk.0.attn_output.weight"},
    {"o_proj.bias", "blk.0.attn_output.bias"},
    {"post_attention_layernorm.weight", "blk.0.ffn_norm.weight"},
    {"gate_proj.weight", "blk.0.ffn_gate.weight"},
    {"up_proj.weight", "blk.0.ffn_up.weight"},
    {"down_proj.weight", "blk.0.ffn_down.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"token_map", "d2t"},
};

/// Keys of config.json and of the file, below its architecture.
constexpr Pair kKeys[] = {
    {"max_position_embeddings", "context_length"},
    {"hidden_size", "embedding_length"},
    {"intermediate_size", "feed_forward_length"},
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"head_dim", "attention.key_length"},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"target_hidden_size", "target_hidden_size"},
    {"norm_before_residual", "norm_before_residual"},
    {"norm_before_fc", "norm_before_fc"},
    {"shared_output", "shared_output"},
    {"logit_scale", "logit_scale"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"tap_layers", "extract_layers"},
    {"tap_layers", "target_layers"},
};

/// Brings a head of any layout into the file's.
class Writer {
 public:
  Writer(const Checkpoint& head, const Checkpoint& target, HeadStorage storage, HeadOutput output)
      : head_(head),
        tensors_(head),
        config_(read_head_config(head, tensors_)),
        target_(target),
        target_config_(read_model_config(target)),
        taps_(fit_to_target(config_, target_config_, tensors_.doing())),
        tokens_(read_draft_vocabulary(tensors_, target_config_.vocabulary)),
        shares_output_(output == HeadOutput::of_target),
        file_(storage) {}

  bool write(const std::filesystem::path& file, const StopFlag* stop);

 private:
  void check_parts() const;
  void check_shared_output() const;
  GgufMetadata metadata() const;
  void add(std::string_view common, std::string_view name);
  void add_output_of_target(std::string_view name);
  void add_frequency_factors();

  const Checkpoint& head_;
  HeadTensors tensors_;
  HeadConfig config_;
  const Checkpoint& target_;
  ModelConfig target_config_;
  std::vector<FeatureTap> taps_;
  std::vector<TokenId> tokens_;  // of each draft id; empty: the same
  bool shares_output_;
  HeadFile file_;
};

void Writer::check_parts() const {
  const auto refuse = [&](bool present, std::string_view part) {
    if (present) fail("{}: expected parts that GGUF heads have, found {}", tensors_.doing(), part);
  };
  const bool eagle1 = config_.generation == HeadGeneration::eagle1;
  refuse(config_.generation == HeadGeneration::peagle, "rows of masks (P-EAGLE)");
  refuse(config_.qk_norm || config_.head_layer_norms, "norms of q and k");
  refuse(config_.mlp_bias, "biases of the feed-forward network");
  refuse(config_.activation != InputTransform::silu_gate, "another activation than silu");
  refuse(config_.tap_norms > 0, "a norm per tap");
  refuse(config_.norm_output, "a normed output fed back");
  refuse(eagle1 && (config_.embedding_norm || config_.feature_norm), "norms before fc");
  refuse(config_.attention_norm, "a norm before attention");
  refuse(config_.further_layers > 0, "further layers");
  refuse(config_.tied_output, "an output tied to the own embedding");
  refuse(config_.sliding_window > 0, "a sliding window");
  const Scaling scaling = config_.rope.scaling;
  refuse(scaling == Scaling::yarn || scaling == Scaling::longrope, "YaRN's or LongRoPE's scaling");
  refuse(config_.rope.rotary > 0, "a rotary embedding of a part of each head");
}

void Writer::check_shared_output() const {
  const StoredTensor* ours = tensors_.find("lm_head.weight");
  if (ours == nullptr) return;
  if (tokens_.empty() || ours->shape[0] != static_cast<std::int64_t>(tokens_.size())) {
    fail(
        "{}: {}: expected a row for each token of a reduced vocabulary, which the target has, too, "
        "found {}",
        tensors_.doing(), quote(ours->name), show_shape(ours->shape));
  }
  const StoredTensor& theirs = output_of_target(target_, target_config_, config_.hidden);
  expect_same_rows(*ours, theirs, tokens_, tensors_.doing());
}

GgufMetadata Writer::metadata() const {
  const bool eagle3 = config_.generation == HeadGeneration::eagle3;
  const std::string architecture = eagle3 ? "eagle3" : "eagle";
  GgufMetadata values = {{"general.architecture", architecture},
                         {"general.type", "model"},
                         {"general.name", head_.path.stem().string()}};
  const auto add = [&](std::string_view key, Json value) {
    values.emplace_back(fmt::format("{}.{}", architecture, key), std::move(value));
  };
  add("block_count", 1U);
  add("context_length", static_cast<unsigned>(config_.context));
  add("embedding_length", static_cast<unsigned>(config_.hidden));
  add("feed_forward_length", static_cast<unsigned>(config_.intermediate));
  add("attention.head_count", static_cast<unsigned>(config_.heads));
  add("attention.head_count_kv", static_cast<unsigned>(config_.kv_heads));
  add("attention.key_length", static_cast<unsigned>(config_.head_dim));
  add("attention.value_length", static_cast<unsigned>(config_.head_dim));
  add("attention.layer_norm_rms_epsilon", config_.norm_epsilon);
  add("rope.freq_base", config_.rope.base);
  add("rope.dimension_count", static_cast<unsigned>(config_.head_dim));
  if (config_.rope.scaling == Scaling::linear) {
    add("rope.scaling.type", "linear");
    add("rope.scaling.factor", config_.rope.factor);
  }
  add("target_hidden_size", static_cast<unsigned>(target_config_.hidden));
  add("vocab_size", static_cast<unsigned>(target_config_.vocabulary));
  if (eagle3) {
    std::vector<int> layers;
    for (const FeatureTap tap : taps_) layers.push_back(tap.layer);
    add("extract_layers", layers);
    add("target_layers", layers);
    add("norm_before_residual", config_.norm_before_residual);
    add("norm_before_fc", config_.fused_norm);
  }
  say_logit_form(config_.logit_form.beside(target_config_, config_.has_rows_of_target()),
                 target_config_, add);
  if (shares_output_ && !tokens_.empty()) add("shared_output", true);
  append_origin(head_, values);
  append_tokenizer(target_, values);
  return values;
}

/// Row i of the result is row order[i] of `values`.
std::vector<float> reordered(const std::vector<float>& values,
                             const std::vector<std::int32_t>& order) {
  const std::size_t width = values.size() / order.size();
  std::vector<float> rows(values.size());
  for (std::size_t row = 0; row < order.size(); ++row)
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(order[row] * width), width,
                rows.begin() + static_cast<std::ptrdiff_t>(row * width));
  return rows;
}

void Writer::add(std::string_view common, std::string_view name) {
  const StoredTensor* tensor = tensors_.find(common);
  if (tensor == nullptr) return;
  std::vector<float> values = head_values(*tensor, tensors_.doing());
  const bool query = common.starts_with("q_proj."), key = common.starts_with("k_proj.");
  if ((query || key) && !has_pairwise_rows(config_, target_config_)) {
    const int heads = query ? config_.heads : config_.kv_heads;
    values = reordered(values, pairwise_order(heads, config_.head_dim));
  }
  file_.add(name, tensor->shape, values);
}

/// Of a head that has its output rows there alone. Those that are stored as asked for stay as they
/// are.
void Writer::add_output_of_target(std::string_view name) {
  const StoredTensor& output = output_of_target(target_, target_config_, config_.hidden);
  const std::size_t row_bytes = output.bytes.size() / static_cast<std::size_t>(output.shape[0]);
  std::vector<std::byte> rows;
  rows.reserve(tokens_.size() * row_bytes);
  for (const TokenId token : tokens_) {
    const auto row = output.bytes.subspan(static_cast<std::size_t>(token) * row_bytes, row_bytes);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(tokens_.size()),
                                           config_.hidden};
  const StorageType type = file_.type_of(config_.hidden);
  if (type == output.type) return file_.add_bytes(name, type, shape, std::move(rows));
  std::vector<float> values(tokens_.size() * static_cast<std::size_t>(config_.hidden));
  dequantize(output.type, rows, values);
  file_.add(name, shape, values);
}

void Writer::add_frequency_factors() {
  const bool is_llama3 = config_.rope.scaling == Scaling::llama3;
  const auto factors =
      is_llama3 ? llama3_divisors(config_.rope, config_.head_dim) : config_.rope.frequency_divisors;
  if (factors.empty()) return;
  file_.add_exactly(kFrequencyFactors, {static_cast<std::int64_t>(factors.size())}, factors);
}

bool Writer::write(const std::filesystem::path& file, const StopFlag* stop) {
  check_parts();
  if (shares_output_) check_shared_output();
  for (const auto& [common, name] : kHeadNames) {
    if (stop && stop->requested()) return false;
    const bool is_output = common == "lm_head.weight";
    if (common == "token_map" || (is_output && shares_output_)) continue;
    if (is_output && config_.shared_output) {
      add_output_of_target(name);
    } else {
      add(common, name);
    }
  }
  add_frequency_factors();
  file_.add_vocabulary(tokens_);
  return file_.write(file, metadata(), stop);
}

}  // namespace

std::optional<std::string> common_name_of_gguf(std::string_view name) {
  for (const auto& [common, theirs] : kHeadNames) {
    if (name == theirs) return std::string(common);
  }
  return std::string(name);
}

Json head_keys_of_gguf(const Checkpoint& checkpoint) {
  const ConfigKeys keys(checkpoint.metadata, checkpoint.path.string());
  const std::string architecture = keys.text("general.architecture");
  if (architecture != "eagle3" && architecture != "eagle")
    keys.refuse("general.architecture", "eagle3 or eagle, as draft heads have it");
  const std::string prefix = architecture + ".";
  if (keys.integer(prefix + "block_count", 1, ConfigLimits::kLayers) != 1)
    keys.refuse(prefix + "block_count", "the one layer of a draft head");
  Json json = {{"bias", checkpoint.find("fc.bias") != nullptr}};
  for (const auto& [ours, theirs] : kKeys) {
    if (const Json* value = keys.find(prefix + std::string(theirs)))
      json[std::string(ours)] = *value;
  }
  if (const Json* texts = keys.find("tokenizer.ggml.tokens"); texts && texts->is_array())
    json["vocab_size"] = texts->size();
  if (const Json* size = keys.find(prefix + "vocab_size")) json["vocab_size"] = *size;
  return json;
}

RopeConfig gguf_head_rope(const Checkpoint& checkpoint, const HeadTensors& tensors, int context,
                          int head_dim) {
  for (const char* factors :
       {kFrequencyFactors, "rope_factors_short.weight", "rope_factors_long.weight"}) {
    tensors.find(factors, {-1});
  }
  const ConfigKeys keys(checkpoint.metadata, checkpoint.path.string());
  const std::string prefix = keys.text("general.architecture") + ".";
  RopeConfig rope = read_gguf_rope(checkpoint, prefix, context, head_dim);
  if (rope.rotary > 0) {
    keys.refuse(prefix + "rope.dimension_count", fmt::format("the head size {}", head_dim));
  }
  return rope;
}

bool write_gguf_head(const Checkpoint& head, const Checkpoint& target, HeadStorage storage,
                     const std::filesystem::path& file, HeadOutput output, const StopFlag* stop) {
  return Writer(head, target, storage, output).write(file, stop);
}

}  // namespace talon
