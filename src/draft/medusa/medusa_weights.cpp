#include "draft/medusa/medusa_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/error.h"
#include "draft/head/draft_vocabulary.h"
#include "draft/head/head_parts.h"
#include "draft/weight_reader.h"
#include "io/quote.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"

namespace talon {
namespace {

/// Takes a number and the point after it off the front of a name.
std::optional<int> take_number(std::string_view& name) {
  int number = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || number < 0 || rest == end || *rest != '.') return std::nullopt;
  name = {rest + 1, end};
  return number;
}

/// "0.1.linear.bias", "lm_heads.0.weight"; whatever is none of these keeps its name.
std::optional<std::string> common_medusa_name(std::string_view stored) {
  std::string_view name = stored;
  take_prefix(name, "medusa_head.");
  take_prefix(name, "medusa_heads.");  // vLLM
  const bool vllm_block = take_prefix(name, "blocks.");
  const bool vllm_output = !vllm_block && take_prefix(name, "lm_heads.");
  const auto head = take_number(name);
  if (!head) return std::string(stored);
  if (vllm_output) return fmt::format("lm_heads.{}.{}", *head, name);
  if (vllm_block && !take_prefix(name, "layers.")) return std::string(stored);
  const auto block = take_number(name);
  if (!block) return std::string(stored);
  if (take_prefix(name, "linear.") || vllm_block)
    return fmt::format("{}.{}.linear.{}", *head, *block, name);
  return fmt::format("lm_heads.{}.{}", *head, name);
}

std::string block_tensor(int head, int block, std::string_view part) {
  return fmt::format("{}.{}.linear.{}", head, block, part);
}
std::string output_tensor(int head) { return fmt::format("lm_heads.{}.weight", head); }

/// vLLM's key by which all heads have the output matrix that the first has.
bool shares_output(const Checkpoint& checkpoint) {
  if (!checkpoint.metadata.is_object()) return false;
  const ConfigKeys keys(checkpoint.metadata, (checkpoint.path / "config.json").string());
  return keys.flag_or("original_lm_head", false);
}

/// Rows of the output matrices; 0: there is none.
int read_outputs(const HeadTensors& tensors, bool shared, MedusaConfig& config) {
  const StoredTensor* first = tensors.find(output_tensor(0), {-1, config.hidden});
  config.own_outputs = first != nullptr && (!shared || tensors.has(output_tensor(1)));
  if (!first) first = tensors.find("lm_head.weight", {-1, config.hidden});
  if (!first) return 0;
  for (int head = 1; config.own_outputs && head < config.heads; ++head) {
    if (!tensors.find(output_tensor(head), {first->shape[0], config.hidden})) {
      fail("{}: expected a tensor \"{}.{}.weight\" (vLLM's name: {}), found none", tensors.doing(),
           head, config.blocks, quote(output_tensor(head)));
    }
  }
  return tensor_rows(*first);
}

MedusaConfig read_config(const Checkpoint& checkpoint, const HeadTensors& tensors) {
  MedusaConfig config;
  const StoredTensor& first = tensors.require(block_tensor(0, 0, "weight"), {-1, -1});
  config.hidden = tensor_rows(first);
  while (tensors.has(block_tensor(config.heads, 0, "weight"))) ++config.heads;
  while (tensors.has(block_tensor(0, config.blocks, "weight"))) ++config.blocks;
  for (int head = 0; head < config.heads; ++head) {
    for (int block = 0; block < config.blocks; ++block) {
      tensors.require(block_tensor(head, block, "weight"), {config.hidden, config.hidden});
      tensors.find(block_tensor(head, block, "bias"), {config.hidden});
    }
  }
  config.draft_vocabulary = read_outputs(tensors, shares_output(checkpoint), config);
  if (checkpoint.metadata.is_object()) {
    const std::string file = (checkpoint.path / "config.json").string();
    config.logit_form = SaidLogitForm::read(ConfigKeys(checkpoint.metadata, file));
  }
  for (const char* map : {"d2t", "token_map"}) {
    if (!tensors.find(map, {config.draft_vocabulary})) continue;
    config.reduced_vocabulary = true;
  }
  tensors.find("t2d", {-1});
  tensors.refuse_unknown();
  return config;
}

void fit_to_target(const MedusaConfig& config, const ModelConfig& target,
                   const std::string& doing) {
  const auto refuse = [&](std::string_view field, int expected, int found) {
    fail("{}: the heads do not fit the target: {}: expected {}, found {}", doing, field, expected,
         found);
  };
  if (config.hidden != target.hidden) {
    refuse("rows of \"0.0.linear.weight\"", target.hidden, config.hidden);
  }
  const bool whole = config.draft_vocabulary != 0 && !config.reduced_vocabulary;
  if (whole && config.draft_vocabulary != target.vocabulary) {
    refuse("rows of the output matrices (there is no \"d2t\")", target.vocabulary,
           config.draft_vocabulary);
  }
}

void check_vocabulary(const Checkpoint& checkpoint, const ModelConfig& target,
                      const std::string& doing) {
  const ConfigKeys keys(checkpoint.metadata, (checkpoint.path / "config.json").string());
  const int stated = keys.integer_or("vocab_size", 1, ConfigLimits::kVocabulary, target.vocabulary);
  if (stated != target.vocabulary) {
    fail("{}: the heads do not fit the target: \"vocab_size\": expected {}, found {}", doing,
         target.vocabulary, stated);
  }
}

}  // namespace

bool is_medusa_head(const Checkpoint& checkpoint) {
  return std::any_of(checkpoint.tensors.begin(), checkpoint.tensors.end(), [](const auto& tensor) {
    return common_medusa_name(tensor.name) == block_tensor(0, 0, "weight");
  });
}

Json describe_medusa(const Checkpoint& checkpoint) {
  const MedusaConfig config = read_config(checkpoint, HeadTensors(checkpoint, common_medusa_name));
  return {{"architecture", "draft head"},
          {"variant", "Medusa"},
          {"hidden", config.hidden},
          {"medusa_heads", config.heads},
          {"blocks", config.blocks},
          {"draft_vocabulary", config.draft_vocabulary},
          {"output", config.own_outputs             ? "one matrix per head"
                     : config.draft_vocabulary != 0 ? "one matrix for all heads"
                                                    : "the target's"},
          {"reduced_vocabulary", config.reduced_vocabulary}};
}

void check_medusa_fits(const Checkpoint& heads, const ModelConfig& target) {
  const HeadTensors tensors(heads, common_medusa_name);
  fit_to_target(read_config(heads, tensors), target, tensors.doing());
}

const Weight& MedusaWeights::output_of(std::size_t head) const {
  if (heads[head].own_output) return *heads[head].own_output;
  return shared_output ? *shared_output : *target_output;
}

MedusaWeights load_medusa(const Checkpoint& checkpoint, const Model& target, WeightLayout layout) {
  const HeadTensors tensors(checkpoint, common_medusa_name);
  MedusaWeights medusa;
  medusa.source = checkpoint.path;
  medusa.config = read_config(checkpoint, tensors);
  fit_to_target(medusa.config, target.config, tensors.doing());
  check_vocabulary(checkpoint, target.config, tensors.doing());
  medusa.backend = target.backend;
  medusa.target_output = &target.output_weight();
  medusa.logit_form =
      medusa.config.logit_form.beside(target.config, medusa.config.draft_vocabulary == 0);
  medusa.target_token = read_draft_vocabulary(tensors, target.config.vocabulary);
  WeightReader reader(tensors, *target.backend);
  const bool own = medusa.config.own_outputs;
  if (!own && medusa.config.draft_vocabulary != 0) {
    const std::string first = output_tensor(0);
    medusa.shared_output = reader.matrix(tensors.has(first) ? first : "lm_head.weight", layout);
  }
  for (int head = 0; head < medusa.config.heads; ++head) {
    MedusaWeights::Head& loaded = medusa.heads.emplace_back();
    for (int block = 0; block < medusa.config.blocks; ++block) {
      const std::string bias = block_tensor(head, block, "bias");
      loaded.blocks.push_back({reader.matrix(block_tensor(head, block, "weight"), layout),
                               reader.vector(bias, tensors.has(bias))});
    }
    if (own) loaded.own_output = reader.matrix(output_tensor(head), layout);
  }
  return medusa;
}

}  // namespace talon
