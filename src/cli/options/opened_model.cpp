#include "cli/options/opened_model.h"

#include <algorithm>
#include <optional>

#include "cli/options/places.h"
#include "cli/terminal/console.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "runtime/cache_budget.h"
#include "runtime/cost_cache.h"
#include "runtime/heads/heads.h"
#include "runtime/heads/pairing.h"

namespace talon {
namespace {

/// What another backend would pass over.
void refuse_flags_of_cpu(const ModelOptions& options) {
  if (options.backend == BackendKind::cpu) return;
  const char* flag = options.kernels != CpuKernels::best ? "--kernels"
                     : options.activations               ? "--activations"
                                                         : nullptr;
  if (flag) throw UsageError(fmt::format("{}: needs --backend cpu", flag));
}

}  // namespace

int OpenedModel::most_positions() const {
  return std::min(model.config.context, cache->total_pages() * kPageRows);
}

ModelSource source_of(const ModelOptions& options) {
  refuse_flags_of_cpu(options);
  ModelSource source = options;
  source.models_folder = models_folder(options.models_folder);
  source.shipped = shipped_places();
  return source;
}

LoadedModel load_with_meter(const ModelOptions& options) {
  std::optional<ProgressMeter> meter;
  LoadEvents events;
  events.tensors = [&](const std::filesystem::path& path, std::size_t done, std::size_t total) {
    if (!meter) meter.emplace("load " + path.filename().string());
    meter->update(done, total);
  };
  return open_model(source_of(options), events);
}

OpenedModel open_model_with_cache(const ModelOptions& options) {
  const Stopwatch watch;
  OpenedModel opened(load_with_meter(options));
  opened.cache =
      open_cache(opened.model, {static_cast<std::size_t>(options.cache_mb) << 20, options.kv});
  opened.load_ms = watch.ms();
  return opened;
}

void require_text_model(const LoadedModel& loaded) {
  if (!loaded.model.config.image) return;
  throw UsageError(fmt::format(
      "model: expected one that writes text, found {}, which draws pictures: use talon image",
      loaded.path.string()));
}

void use_places(DecodeSettings& settings, const LoadedModel& loaded, KvType cache_type) {
  settings.costs = cost_cache(loaded, cache_type, costs_folder());
  settings.heads = heads_at_hand(loaded);
  note_heads_of_others(settings.drafter, loaded);
}

HeadFinder heads_at_hand(const LoadedModel& loaded) {
  return heads_of(loaded, shipped_places(), note_head);
}

void note_heads_of_others(const std::string& drafter, const LoadedModel& loaded) {
  for (const std::string& head : heads_of_another(drafter, loaded.fingerprint)) {
    note("note: the draft head {} was made for another model than {}: few guesses may be right",
         head, loaded.path.string());
  }
}

void note_head(std::string_view why) { note("note: a draft head is passed over: {}", why); }

}  // namespace talon
