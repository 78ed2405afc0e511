#include "draft/block/write_gguf_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "draft/block/block_config.h"
#include "draft/block/gguf_block.h"
#include "draft/head/draft_vocabulary.h"
#include "draft/head/head_tensors.h"
#include "io/quote.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

/// Brings a block drafter of any layout into the file's.
class BlockWriter {
 public:
  BlockWriter(const Checkpoint& head, const Checkpoint& target, HeadStorage storage,
              HeadOutput output)
      : head_(head),
        tensors_(block_tensors(head)),
        config_(read_block_config(head, tensors_)),
        target_(target),
        target_config_(read_model_config(target)),
        taps_(fit_to_target(config_, target_config_, tensors_.doing())),
        tokens_(read_draft_vocabulary(tensors_, target_config_.vocabulary)),
        leaves_tables_(output == HeadOutput::of_target),
        file_(storage) {}

  bool write(const std::filesystem::path& file, const StopFlag* stop);

 private:
  bool is_causal() const;
  void check_parts() const;
  void check_tables() const;
  void append_sizes(GgufMetadata& keys) const;
  void append_rope(GgufMetadata& keys) const;
  GgufMetadata metadata() const;
  void add(const GgufBlockName& name);

  const Checkpoint& head_;
  HeadTensors tensors_;
  BlockConfig config_;
  const Checkpoint& target_;
  ModelConfig target_config_;
  std::vector<FeatureTap> taps_;
  std::vector<TokenId> tokens_;  // of each draft id; empty: the same
  bool leaves_tables_;
  HeadFile file_;
};

template <typename Value>
void append_key(GgufMetadata& keys, std::string_view key, Value value) {
  keys.emplace_back(fmt::format("dflash.{}", key), Json(std::move(value)));
}

void append_count(GgufMetadata& keys, std::string_view key, int value) {
  append_key(keys, key, static_cast<unsigned>(value));
}

bool is_table(std::string_view official) {
  return official == "lm_head.weight" || official == "embed_tokens.weight";
}

/// In all layers.
bool BlockWriter::is_causal() const {
  const auto& slides = config_.slides;
  const bool all_slide = std::find(slides.begin(), slides.end(), false) == slides.end();
  return config_.causal || (config_.causal_slides && all_slide);
}

/// What llama.cpp's `dflash` asks for and what it has no place for.
void BlockWriter::check_parts() const {
  const auto refuse = [&](bool present, std::string_view part) {
    if (present) {
      fail("{}: expected parts that GGUF files of the architecture dflash have, found {}",
           tensors_.doing(), part);
    }
  };
  const RopeConfig& rope = config_.rope;
  const auto scales_as = [&](RopeConfig::Scaling scaling) { return rope.scaling == scaling; };
  refuse(
      config_.hidden != target_config_.hidden,
      fmt::format("a width of {} beside the target's {}", config_.hidden, target_config_.hidden));
  refuse(!config_.qk_norm, "no norms of q and k");
  refuse(config_.qkv_bias, "biases of q, k and v");
  refuse(config_.output_bias, "a bias of the attention's output");
  refuse(config_.activation != InputTransform::silu_gate, "another activation than silu");
  refuse(config_.markov_kind != MarkovKind::vanilla,
         fmt::format("a bias by the token before of the kind {}", name_of(config_.markov_kind)));
  refuse(config_.confidence && !config_.confidence_reads_markov,
         "a confidence that does not read the token before");
  refuse(scales_as(RopeConfig::Scaling::llama3) || !rope.frequency_divisors.empty(),
         "factors of frequencies, as Llama 3's scaling has them");
  refuse(scales_as(RopeConfig::Scaling::longrope), "LongRoPE's scaling");
  refuse(scales_as(RopeConfig::Scaling::yarn) && !rope.truncate,
         "a ramp of YaRN between whole pairs");
}

/// Those that are left out.
void BlockWriter::check_tables() const {
  if (!tokens_.empty()) {
    fail(
        "{}: expected the output rows of all tokens, which a file of the architecture dflash can "
        "leave to the target, found those of {}",
        tensors_.doing(), tokens_.size());
  }
  const auto compare = [&](std::string_view name, const auto& table_of) {
    const StoredTensor* ours = tensors_.find(name);
    if (!ours) return;
    expect_same_rows(*ours, table_of(target_, target_config_, config_.hidden), {},
                     tensors_.doing());
  };
  compare("lm_head.weight", output_of_target);
  compare("embed_tokens.weight", embedding_of_target);
}

void BlockWriter::append_sizes(GgufMetadata& keys) const {
  append_count(keys, "block_count", config_.layers);
  append_count(keys, "context_length", config_.context);
  append_count(keys, "embedding_length", config_.hidden);
  append_count(keys, "feed_forward_length", config_.intermediate);
  append_count(keys, "attention.head_count", config_.heads);
  append_count(keys, "attention.head_count_kv", config_.kv_heads);
  append_count(keys, "attention.key_length", config_.head_dim);
  append_count(keys, "attention.value_length", config_.head_dim);
  append_key(keys, "attention.layer_norm_rms_epsilon", config_.norm_epsilon);
  append_count(keys, "vocab_size", target_config_.vocabulary);
  if (is_causal()) append_key(keys, "attention.causal", true);
  if (config_.window == 0) return;
  append_count(keys, "attention.sliding_window", config_.window);
  Json pattern = Json::array();
  for (const bool slides : config_.slides) pattern.push_back(slides);
  append_key(keys, "attention.sliding_window_pattern", std::move(pattern));
  if (!config_.causal && !config_.causal_slides) append_key(keys, kNonCausalSlides, true);
}

void BlockWriter::append_rope(GgufMetadata& keys) const {
  const RopeConfig& rope = config_.rope;
  const int turning = rope.rotary > 0 ? rope.rotary : config_.head_dim;
  append_key(keys, "rope.freq_base", rope.base);
  append_count(keys, "rope.dimension_count", turning);
  // Beside a target that turns by time, height and width: all pairs by time.
  const std::string sections = target_config_.architecture + ".rope.dimension_sections";
  if (target_.format == CheckpointFormat::gguf && target_.metadata.contains(sections)) {
    append_key(keys, "rope.dimension_sections", std::vector<int>{turning / 2, 0, 0, 0});
  }
  if (rope.scaling == RopeConfig::Scaling::none) return;
  const bool yarn = rope.scaling == RopeConfig::Scaling::yarn;
  append_key(keys, "rope.scaling.type", yarn ? "yarn" : "linear");
  append_key(keys, "rope.scaling.factor", rope.factor);
  if (!yarn) return;
  append_count(keys, "rope.scaling.original_context_length",
               static_cast<int>(rope.original_context));
  append_key(keys, "rope.scaling.yarn_beta_fast", rope.beta_fast);
  append_key(keys, "rope.scaling.yarn_beta_slow", rope.beta_slow);
  const double usual = yarn_attention_factor(rope.factor);
  if (rope.attention_factor == 0 || rope.attention_factor == usual) return;
  append_key(keys, "rope.scaling.yarn_attn_factor", rope.attention_factor);
  append_key(keys, "rope.scaling.attn_factor", rope.attention_factor / usual);
}

GgufMetadata BlockWriter::metadata() const {
  GgufMetadata keys = {{"general.architecture", "dflash"},
                       {"general.type", "model"},
                       {"general.name", head_.path.stem().string()}};
  append_sizes(keys);
  append_rope(keys);
  append_count(keys, "target_hidden_size", target_config_.hidden);
  append_count(keys, "block_size", config_.block);
  std::vector<int> layers;
  for (const FeatureTap tap : taps_) layers.push_back(tap.layer);
  append_key(keys, "target_layers", layers);
  append_key(keys, "sample_from_anchor", config_.root_predicts);
  if (config_.markov_rank > 0) append_key(keys, "has_confidence_head", config_.confidence);
  say_logit_form(config_.logit_form.beside(target_config_, config_.has_rows_of_target()),
                 target_config_,
                 [&](std::string_view key, float value) { append_key(keys, key, value); });
  keys.emplace_back("tokenizer.ggml.mask_token_id", static_cast<unsigned>(config_.mask_token));
  append_origin(head_, keys);
  append_tokenizer(target_, keys);
  return keys;
}

void BlockWriter::add(const GgufBlockName& name) {
  const StoredTensor* tensor = tensors_.find(name.official);
  if (!tensor || (leaves_tables_ && is_table(name.official))) return;
  const std::vector<float> values = head_values(*tensor, tensors_.doing());
  if (name.official.starts_with("confidence_head.")) {
    file_.add_exactly(name.theirs, tensor->shape, values);
  } else {
    file_.add(name.theirs, tensor->shape, values);
  }
}

bool BlockWriter::write(const std::filesystem::path& file, const StopFlag* stop) {
  check_parts();
  if (leaves_tables_) check_tables();
  for (const GgufBlockName& name : block_names_in_gguf(config_.layers)) {
    if (stop && stop->requested()) return false;
    add(name);
  }
  file_.add_vocabulary(tokens_);
  return file_.write(file, metadata(), stop);
}

}  // namespace

bool write_gguf_block(const Checkpoint& head, const Checkpoint& target, HeadStorage storage,
                      const std::filesystem::path& file, HeadOutput output, const StopFlag* stop) {
  return BlockWriter(head, target, storage, output).write(file, stop);
}

}  // namespace talon
