#include "runtime/loaded_model.h"

#include <algorithm>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "core/machine/processors.h"
#include "model/load/fingerprint.h"
#include "model/load/prediction_layer.h"

namespace talon {
namespace {

/// Small models feel 8-bit inputs: on SmolLM2 (hidden 576) 16 bits for the largest groups halve the
/// distance of the likelihoods to float32 (docs/performance/precision.md).
constexpr int kHiddenThatNeedsMixed = 1024;  // and less

void check_context(const ModelConfig& config, const ModelSource& source) {
  if (source.context > config.context) {
    throw UsageError(fmt::format("context: expected at most {}, which {} allows, got {}",
                                 config.context, source.model, source.context));
  }
}

Model load(const Checkpoint& checkpoint, Backend& backend, const ModelSource& source,
           const LoadEvents& events) {
  LoadOptions options;
  options.layout = source.weights;
  options.context = source.context;
  options.progress = [&](std::size_t done, std::size_t total) {
    if (events.tensors) events.tensors(checkpoint.path, done, total);
    for (const MappedFile& file : checkpoint.files)
      file.forget_pages();  // repacked: not needed twice
  };
  return load_model(checkpoint, backend, options);
}

void check_vocabulary(const LoadedModel& loaded) {
  if (!loaded.tokenizer) return;
  const ModelConfig& config = loaded.model.config;
  if (config.image && config.image->text_tokens == 0) return;  // its prompts are no texts
  const int rows = config.image ? config.image->text_tokens : config.vocabulary;
  if (has_rows_for_text(*loaded.tokenizer, rows)) return;
  fail(
      "open model {}: its tokenizer has {} tokens, its weights only {}: they belong to different "
      "models",
      loaded.path.string(), loaded.tokenizer->vocabulary_size(), rows);
}

std::vector<TokenId> end_tokens_of(const LoadedModel& loaded) {
  if (loaded.model.config.image) return {};  // a picture ends with its last cell
  std::vector<TokenId> tokens = loaded.model.config.end_tokens;
  if (loaded.tokenizer) {
    const auto& more = loaded.tokenizer->end_tokens();
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  std::erase_if(tokens, [&](TokenId token) { return token >= loaded.model.config.vocabulary; });
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

}  // namespace

const Tokenizer& LoadedModel::require_tokenizer() const {
  if (!tokenizer) throw Error(tokenizer_problem);
  return *tokenizer;
}

Checkpoint open_files(const ModelSource& source) {
  Checkpoint checkpoint = open_checkpoint(resolve_model(source));
  if (source.image_side > 0 && checkpoint.metadata.is_object())
    checkpoint.metadata["grid"] = source.image_side;
  return checkpoint;
}

LoadedModel open_model(const ModelSource& source, const LoadEvents& events) {
  LoadedModel loaded;
  const Checkpoint checkpoint = open_files(source);
  loaded.path = checkpoint.path;
  loaded.name = catalogue_name_of(loaded.path);
  try {
    loaded.tokenizer = Tokenizer::for_checkpoint(checkpoint);
  } catch (const Error& error) {
    loaded.tokenizer_problem = error.what();  // a model fed with ids does without
  }
  const ModelConfig config = read_model_config(checkpoint);
  loaded.fingerprint = fingerprint_of(checkpoint, config);
  loaded.predicts = prediction_problem(checkpoint, config).empty();
  loaded.models_folder = source.models_folder;
  check_context(config, source);
  ModelSource chosen = source;
  chosen.activations = loaded.activations = activations_for(source, config);
  loaded.weights = source.weights;
  loaded.threads = thread_count(source);
  loaded.backend = make_backend(chosen);
  loaded.model = load(checkpoint, *loaded.backend, source, events);
  loaded.end_tokens = end_tokens_of(loaded);
  check_vocabulary(loaded);
  return loaded;
}

Tokenizer open_tokenizer(const ModelSource& source) {
  return Tokenizer::for_checkpoint(open_checkpoint(resolve_model(source)));
}

Activations activations_for(const ModelSource& source, const ModelConfig& config) {
  if (source.activations) return *source.activations;
  return config.hidden <= kHiddenThatNeedsMixed ? Activations::mixed : Activations::bits8;
}

int thread_count(const ModelSource& source) { return worker_count(source.threads); }

std::unique_ptr<Backend> make_backend(const ModelSource& source) {
  if (source.backend == BackendKind::reference) return make_reference_backend(thread_count(source));
  CpuOptions cpu;
  cpu.threads = thread_count(source);
  cpu.adapt = !source.fixed_threads;
  cpu.kernels = source.kernels;
  if (source.activations) cpu.activations = *source.activations;
  return make_cpu_backend(cpu);
}

}  // namespace talon
