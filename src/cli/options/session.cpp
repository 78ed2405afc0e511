#include "cli/options/session.h"

#include <algorithm>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "cli/options/models_folder.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "core/thread_pool.h"
#include "engine/stopwatch.h"

namespace talon {
namespace {

constexpr std::size_t kMostCacheBytes = std::size_t{1024} << 20;
constexpr int kPagesInFlight = 8;  // beyond the context: for rows that a check adds and drops

std::size_t cache_budget(const ModelOptions& options, const ModelConfig& config) {
  if (options.cache_mb > 0) return static_cast<std::size_t>(options.cache_mb) << 20;
  const KvShape one_page{config.layers, config.kv_heads, config.head_dim, 1, options.kv};
  const auto pages =
      static_cast<std::size_t>((config.context + kPageRows - 1) / kPageRows + kPagesInFlight);
  return std::min(pages * kv_page_bytes(one_page), kMostCacheBytes);
}

/// Small models feel 8-bit inputs: on SmolLM2 (hidden 576) 16 bits for the largest groups halve the
/// distance of the likelihoods to float32 (docs/performance/precision.md).
constexpr int kHiddenThatNeedsMixed = 1024;  // and less

void check_context(const ModelConfig& config, const ModelOptions& options) {
  const int most = config.context;
  if (options.context > most) {
    throw UsageError(fmt::format("--context: expected at most {}, which {} allows, got {}", most,
                                 options.model, options.context));
  }
}

Model load(const Checkpoint& checkpoint, Backend& backend, const ModelOptions& options) {
  ProgressMeter meter("load " + checkpoint.path.filename().string());
  LoadOptions load_options;
  load_options.layout = options.weights;
  load_options.context = options.context;
  load_options.progress = [&](std::size_t done, std::size_t total) {
    meter.update(done, total);
    for (const MappedFile& file : checkpoint.files)
      file.forget_pages();  // repacked: not needed twice
  };
  return load_model(checkpoint, backend, load_options);
}

void check_vocabulary(const Session& session) {
  if (!session.tokenizer || session.tokenizer->vocabulary_size() <= session.model.config.vocabulary)
    return;
  fail(
      "open model {}: its tokenizer has {} tokens, its weights only {}: they belong to different "
      "models",
      session.path.string(), session.tokenizer->vocabulary_size(), session.model.config.vocabulary);
}

}  // namespace

const Tokenizer& Session::require_tokenizer() const {
  if (!tokenizer) throw Error(tokenizer_problem);
  return *tokenizer;
}

std::vector<TokenId> Session::end_tokens() const {
  std::vector<TokenId> tokens = model.config.end_tokens;
  if (tokenizer)
    tokens.insert(tokens.end(), tokenizer->end_tokens().begin(), tokenizer->end_tokens().end());
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

Activations activations_for(const ModelOptions& options, const ModelConfig& config) {
  if (options.activations) return *options.activations;
  return config.hidden <= kHiddenThatNeedsMixed ? Activations::mixed : Activations::bits8;
}

int thread_count(const ModelOptions& options) {
  return options.threads > 0 ? options.threads : available_processors();
}

std::unique_ptr<Backend> make_backend(const ModelOptions& options) {
  if (options.backend == BackendKind::reference)
    return make_reference_backend(thread_count(options));
  CpuOptions cpu;
  cpu.threads = thread_count(options);
  cpu.kernels = options.kernels;
  if (options.activations) cpu.activations = *options.activations;
  return make_cpu_backend(cpu);
}

Session open_session(const ModelOptions& options) {
  const Stopwatch watch;
  Session session;
  session.path = resolve_model(options.model, models_folder(options.models_folder));
  const Checkpoint checkpoint = open_checkpoint(session.path);
  try {
    session.tokenizer = Tokenizer::for_checkpoint(checkpoint);
  } catch (const Error& error) {
    session.tokenizer_problem = error.what();  // a model fed with ids does without
  }
  const ModelConfig config = read_model_config(checkpoint);
  check_context(config, options);
  ModelOptions resolved = options;
  resolved.activations = activations_for(options, config);
  session.activations = *resolved.activations;
  session.backend = make_backend(resolved);
  session.model = load(checkpoint, *session.backend, options);
  check_vocabulary(session);
  session.cache =
      std::make_unique<KvCache>(*session.backend, session.model.config,
                                cache_budget(options, session.model.config), options.kv);
  session.load_ms = watch.ms();
  return session;
}

Tokenizer open_tokenizer(const ModelOptions& options) {
  return Tokenizer::for_checkpoint(
      open_checkpoint(resolve_model(options.model, models_folder(options.models_folder))));
}

}  // namespace talon
