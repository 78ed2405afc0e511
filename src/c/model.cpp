#include <fmt/ranges.h>

#include <mutex>

#include "c/defaults.h"
#include "c/handles.h"
#include "c/logits.h"
#include "c/structs.h"
#include "model/text_pass.h"
#include "runtime/cache_budget.h"
#include "text/prompt.h"

namespace talon {
namespace {

constexpr std::size_t kLogitsChunk = 64;  // rows of one forward of talon_model_logits

WeightLayout read_layout(const char* name) {
  if (!name) return WeightLayout::as_stored;
  std::vector<std::string_view> names;
  for (const WeightLayout layout : kWeightLayouts) {
    if (name_of(layout) == name) return layout;
    names.push_back(name_of(layout));
  }
  throw UsageError(
      fmt::format("options->weights: expected one of {}, found {}", fmt::join(names, ", "), name));
}

std::optional<Activations> read_activations(const char* name) {
  if (!name) return std::nullopt;
  for (const auto value : {Activations::bits8, Activations::mixed, Activations::bits16}) {
    if (name_of(value) == name) return value;
  }
  throw UsageError(
      fmt::format("options->activations: expected one of 8, mixed, 16, found {}", name));
}

ModelSource read_source(const char* source, const talon_model_options& options) {
  require(options.backend == TALON_BACKEND_CPU || options.backend == TALON_BACKEND_REFERENCE,
          "options->backend", "a talon_backend", options.backend);
  require(options.threads >= 0, "options->threads", "0 or more", options.threads);
  require(options.context >= 0, "options->context", "0 or more", options.context);
  ModelSource model;
  model.model = &require_pointer(source, "source", "a path or a name");
  require(!model.model.empty(), "source", "a path or a name", "an empty text");
  if (options.models_folder) model.models_folder = options.models_folder;
  if (options.backend == TALON_BACKEND_REFERENCE) model.backend = BackendKind::reference;
  model.threads = options.threads;
  model.fixed_threads = require_flag(options.fixed_threads, "options->fixed_threads");
  model.context = options.context;
  model.weights = read_layout(options.weights);
  model.activations = read_activations(options.activations);
  return model;
}

LoadEvents load_events(const talon_model_options& options) {
  LoadEvents events;
  events.tensors = [options](const std::filesystem::path& path, std::size_t done,
                             std::size_t total) {
    if (options.cancel && options.cancel->flag.requested()) {
      throw StatusError(TALON_CANCELLED, fmt::format("open model {}: cancelled", path.string()));
    }
    if (options.progress) options.progress(options.progress_user, path.c_str(), done, total);
  };
  return events;
}

void open_chat(SharedModel& shared) {
  try {
    shared.chat = chat_template_of(shared.loaded.require_tokenizer());
    shared.tool_chat = tool_template_of(*shared.loaded.tokenizer);
  } catch (const Error& error) {
    shared.chat_problem = error.what();  // who needs none does without
  }
}

std::shared_ptr<SharedModel> open_shared(const char* source, const talon_model_options& options) {
  const Log log{options.log, options.log_user};
  auto shared =
      std::make_shared<SharedModel>(open_model(read_source(source, options), load_events(options)));
  shared->path = shared->loaded.path.string();
  open_chat(*shared);
  if (!shared->loaded.tokenizer) log(TALON_LOG_WARNING, shared->loaded.tokenizer_problem);
  log(TALON_LOG_INFO, fmt::format("{}: {}, {} threads, {} inputs", shared->path,
                                  shared->loaded.backend->description(), shared->loaded.threads,
                                  name_of(shared->loaded.activations)));
  return shared;
}

talon_model_info describe(const SharedModel& shared) {
  const LoadedModel& loaded = shared.loaded;
  const ModelConfig& config = loaded.model.config;
  talon_model_info info = {};
  info.path = shared.path.c_str();
  info.name = loaded.name.c_str();
  info.vocabulary = config.vocabulary;
  info.context = config.context;
  info.hidden = config.hidden;
  info.layers = config.layers;
  info.threads = loaded.threads;
  info.has_tokenizer = loaded.tokenizer ? 1 : 0;
  info.has_chat_template = shared.chat ? 1 : 0;
  info.start_token = loaded.tokenizer ? loaded.tokenizer->start_token().value_or(-1) : -1;
  info.weight_bytes = loaded.model.weight_bytes;
  info.end_tokens = loaded.end_tokens.data();
  info.end_token_count = loaded.end_tokens.size();
  return info;
}

/// Runs `tokens` through the model and copies the logits of the rows from `first` on. Others have
/// their turn between two forwards, and `go_on` is asked there.
void compute_logits(SharedModel& shared, std::span<const TokenId> tokens, std::size_t first,
                    float* out, const std::function<bool()>& go_on) {
  std::unique_lock turn(shared.turns);
  const Model& model = shared.loaded.model;
  const KvType type = cache_type(model, std::nullopt);
  const auto cache =
      open_cache(model, {kv_cache_bytes(model.config, type, positions_for(tokens.size())), type});
  const auto width = static_cast<std::size_t>(model.config.vocabulary);
  TextPass pass{.tokens = tokens, .first = first, .chunk = kLogitsChunk};
  pass.ran = [&](std::size_t done, const View& logits) {
    if (logits) {
      const auto rows = static_cast<std::size_t>(logits.rows);
      model.backend->download(logits, {out + (done - rows - first) * width, rows * width});
    }
    turn.unlock();
    const bool ends = go_on && !go_on();
    turn.lock();
    if (ends) throw StatusError(TALON_CANCELLED, "cancelled");
  };
  run_text(model, *cache, pass);
}

void check_logits(const SharedModel& shared, std::span<const TokenId> tokens, std::size_t first,
                  std::size_t capacity) {
  const ModelConfig& config = shared.loaded.model.config;
  require(!tokens.empty(), "count", "at least one token", tokens.size());
  if (tokens.size() > static_cast<std::size_t>(config.context)) {
    throw StatusError(TALON_TOO_LONG,
                      fmt::format("count: expected at most {}, the context, found {}",
                                  config.context, tokens.size()));
  }
  shared.check_tokens(tokens, "tokens");
  require(first < tokens.size(), "first", fmt::format("less than {}", tokens.size()).c_str(),
          first);
  const std::size_t needed = (tokens.size() - first) * static_cast<std::size_t>(config.vocabulary);
  require(capacity >= needed, "capacity", fmt::format("at least {} floats", needed).c_str(),
          capacity);
}

}  // namespace

talon_status model_logits(const talon_model* model, const std::int32_t* tokens, std::size_t count,
                          std::size_t first, float* logits, std::size_t capacity,
                          const std::function<bool()>& go_on) {
  return guarded("talon_model_logits", [&] {
    SharedModel& shared = *require_pointer(model, "model", "a model").shared;
    const auto text = require_array(tokens, count, "tokens");
    check_logits(shared, text, first, capacity);
    require_pointer(logits, "logits", "an array to fill");
    compute_logits(shared, text, first, logits, go_on);
  });
}

}  // namespace talon

using namespace talon;

talon_status talon_model_load(const char* source, const talon_model_options* options,
                              talon_model** model) {
  return guarded(__func__, [&] {
    auto*& out = require_pointer(model, "model", "an address to fill");
    out = nullptr;
    const auto known = read_struct(options, default_model_options(), "options");
    out = new talon_model{open_shared(source, known)};
  });
}

talon_status talon_model_describe(const talon_model* model, talon_model_info* info) {
  return guarded(__func__, [&] {
    write_struct(info, describe(*require_pointer(model, "model", "a model").shared), "info");
  });
}

void talon_model_free(talon_model* model) { delete model; }

talon_status talon_model_logits(const talon_model* model, const int32_t* tokens, size_t count,
                                size_t first, float* logits, size_t capacity) {
  return model_logits(model, tokens, count, first, logits, capacity, {});
}
