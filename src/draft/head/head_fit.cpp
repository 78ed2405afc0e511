#include <algorithm>

#include "draft/head/head_config.h"
#include "draft/head/head_parts.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr int kUsualTaps = 3;
constexpr int kFirstOfficialTap = 2;

void fit_vocabulary(const HeadConfig& config, const ModelConfig& target, const std::string& doing) {
  if (config.generation == HeadGeneration::peagle && config.mask_token >= target.vocabulary) {
    refuse_target(doing, "{}: expected a token below {}, found {}", quote(config.mask_key),
                  target.vocabulary, config.mask_token);
  }
  // The first token of a text is in no pair: where it alone is no code, codes are all that is read.
  const bool reads_prompts =
      config.own_embedding && target.image && target.image->prompt_tokens > 1;
  const int tokens = reads_prompts ? target.input_count() : target.vocabulary;
  const bool fits =
      config.vocabulary == tokens || (target.image && config.vocabulary == target.stored_tokens());
  if (config.vocabulary != 0 && !fits) {
    refuse_target(doing, "{}: expected {}, found {}",
                  config.own_embedding ? "rows of \"embed_tokens.weight\"" : "\"vocab_size\"",
                  tokens, config.vocabulary);
  }
  if (config.draft_vocabulary != 0 && !config.reduced_vocabulary &&
      config.draft_vocabulary != target.vocabulary) {
    refuse_target(doing, "rows of \"lm_head.weight\": expected {}, or a \"d2t\", found {}",
                  target.vocabulary, config.draft_vocabulary);
  }
}

void fit_width(const HeadConfig& config, const ModelConfig& target, const std::string& doing) {
  if (config.target_hidden != 0 && config.target_hidden != target.hidden) {
    refuse_target(doing, "\"target_hidden_size\": expected {}, found {}", target.hidden,
                  config.target_hidden);
  }
  const bool taps = config.generation != HeadGeneration::eagle1;
  if (taps ? config.feature_width % target.hidden != 0 : config.feature_width != target.hidden) {
    refuse_target(doing, "\"fc.weight\": expected features of width {} (hidden_size){}, found {}",
                  target.hidden, taps ? " or a multiple" : "", config.feature_width);
  }
  if (config.hidden == target.hidden) return;
  const std::string_view missing = !config.own_embedding ? "embed_tokens.weight" : "lm_head.weight";
  const bool own_output =
      config.tied_output || (config.draft_vocabulary != 0 && !config.shared_output);
  if (!config.own_embedding || !own_output) {
    refuse_target(doing, "hidden_size: expected {}, or an own \"{}\", found {}", target.hidden,
                  missing, config.hidden);
  }
}

std::vector<FeatureTap> fit_taps(const HeadConfig& config, const ModelConfig& target,
                                 const std::string& doing) {
  const int width = config.feature_width / target.hidden;
  std::vector<int> layers = counted_taps(config, target.layers);
  if (layers.empty() && width == kUsualTaps) layers = usual_tap_layers(target.layers);
  if (static_cast<int>(layers.size()) != width) {
    refuse_target(
        doing,
        "\"fc.weight\" reads {} target layers: expected \"tap_layers\" to name them, found {}",
        width, layers.size());
  }
  if (config.tap_norms != 0 && config.tap_norms != width) {
    refuse_target(doing, "\"fc_norm\": expected {} norms, found {}", width, config.tap_norms);
  }
  std::vector<FeatureTap> taps;
  for (const int layer : layers) {
    if (layer > target.layers) {
      refuse_target(doing, "tap layer: expected at most the {} layers of the target, found {}",
                    target.layers, layer);
    }
    taps.push_back({layer});
  }
  return taps;
}

}  // namespace

std::vector<int> usual_tap_layers(int layers) {
  const std::vector<int> official = {kFirstOfficialTap, layers / 2, layers - 3};
  const bool ascending = official[0] < official[1] && official[1] < official[2];
  return ascending ? official : std::vector<int>{1, layers / 2, layers - 1};
}

std::vector<int> counted_taps(const HeadConfig& config, int target_layers) {
  const std::vector<int>& read = config.tap_layers;
  if (config.tap_count == TapCount::sure || read.empty()) return read;
  const auto moved = [&](int by) {
    std::vector<int> layers = read;
    for (int& layer : layers) layer += by;
    return layers;
  };
  const std::vector<int> usual = usual_tap_layers(target_layers);
  const bool are_official = usual.front() == kFirstOfficialTap;
  if (are_official && (moved(1) == usual || moved(-1) == usual)) return usual;
  const bool is_beyond = std::ranges::max(read) == target_layers + 1;
  return config.tap_count == TapCount::left && is_beyond ? moved(-1) : read;
}

bool has_pairwise_rows(const HeadConfig& config, const ModelConfig& target) {
  return config.interleaved_rope || (target.image && target.interleaved_rope);
}

std::vector<FeatureTap> fit_to_target(const HeadConfig& config, const ModelConfig& target,
                                      const std::string& doing) {
  fit_width(config, target, doing);
  if (target.image && config.head_dim % 4 != 0) {
    refuse_target(doing,
                  "\"head_dim\": expected a multiple of 4, which turn by row and column, found {}",
                  config.head_dim);
  }
  fit_vocabulary(config, target, doing);
  if (config.generation == HeadGeneration::eagle1) return {FeatureTap{FeatureTap::kFinalNorm}};
  return fit_taps(config, target, doing);
}

}  // namespace talon
