#include "draft/gemma4_assistant/assistant_weights.h"

#include <string>

#include "core/error.h"
#include "draft/head/draft_vocabulary.h"
#include "io/quote.h"
#include "io/tensor_layout.h"
#include "model/load/load_layer.h"

namespace talon {
namespace {

constexpr const char* kCentroids = "masked_embedding.centroids.weight";
constexpr const char* kOrdering = "masked_embedding.token_ordering";

/// The tokens of all clusters, one cluster after the other.
std::vector<TokenId> read_ordering(const Checkpoint& file, int vocabulary,
                                   const std::string& doing) {
  const StoredTensor& tensor = file.require(kOrdering);
  const std::vector<std::int64_t> shape = {vocabulary};
  if (tensor.shape != shape) {
    fail("{}: {}: expected {}, found {}", doing, quote(tensor.name), show_shape(shape),
         show_shape(tensor.shape));
  }
  std::vector<bool> seen(static_cast<std::size_t>(vocabulary));
  std::vector<TokenId> tokens;
  for (const std::int64_t id : read_integers(tensor, doing)) {
    if (id < 0 || id >= vocabulary || seen[static_cast<std::size_t>(id)]) {
      fail("{}: {}: entry {}: expected a token id below {} that comes once, found {}", doing,
           quote(tensor.name), tokens.size(), vocabulary, id);
    }
    seen[static_cast<std::size_t>(id)] = true;
    tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

}  // namespace

Gemma4AssistantWeights load_gemma4_assistant(const Checkpoint& checkpoint, const Model& target,
                                             WeightLayout layout) {
  const std::string doing = fmt::format("load head {}", quote(checkpoint.path.string()));
  Gemma4AssistantWeights assistant;
  assistant.source = checkpoint.path;
  assistant.target = &target;
  assistant.config = read_gemma4_assistant_config(checkpoint);
  fit_to_target(assistant.config, target.config, doing);
  const ModelConfig& config = assistant.config.text;
  const LoadOptions options{.layout = layout, .context = 0, .progress = {}};
  TensorLoader tensors(checkpoint, *target.backend, options);
  LayerLoader layers(tensors, config);
  const TensorNames& names = layers.names();
  const std::string part = checkpoint.format == CheckpointFormat::gguf ? "nextn." : "";
  const int hidden = config.hidden, wide = target.config.hidden;
  assistant.before = tensors.matrix(part + "pre_projection.weight", hidden, 2 * wide);
  assistant.after = tensors.matrix(part + "post_projection.weight", wide, hidden);
  if (assistant.config.clusters > 0) {
    assistant.target_token = read_ordering(checkpoint, config.vocabulary, doing);
    assistant.centroids = tensors.matrix(kCentroids, assistant.config.clusters, hidden);
  }
  assistant.output = tensors.matrix(names.embedding, config.vocabulary, hidden,
                                    {.first = 0, .stored = 0, .order = assistant.target_token});
  for (int layer = 0; layer < config.layers; ++layer)
    assistant.layers.push_back(layers.load(layer));
  assistant.norm = layers.norm(names.final_norm + ".weight", hidden);
  layers.expect_no_others();
  assistant.pass_bytes = tensors.weight_bytes();
  return assistant;
}

}  // namespace talon
