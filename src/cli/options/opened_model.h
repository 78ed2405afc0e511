#pragma once

#include <memory>
#include <string_view>

#include "cli/options/model_options.h"
#include "draft/registry.h"
#include "runtime/answerer.h"
#include "runtime/loaded_model.h"

namespace talon {

/// A model with the cache that a command answers from.
struct OpenedModel : LoadedModel {
  explicit OpenedModel(LoadedModel loaded) : LoadedModel(std::move(loaded)) {}
  std::unique_ptr<KvCache> cache;
  double load_ms = 0;

  /// Most positions of a text: the model's context, or what the cache holds of it.
  int most_positions() const;
};

/// What `options` name, with the folder of pulled models. Throws UsageError for options of a
/// backend that is not theirs.
ModelSource source_of(const ModelOptions& options);
/// Opens what `options` name, showing progress.
LoadedModel load_with_meter(const ModelOptions& options);
/// Opens what `options` name, showing progress, and makes the cache.
OpenedModel open_model_with_cache(const ModelOptions& options);

/// Throws UsageError for a model that draws pictures.
void require_text_model(const LoadedModel& loaded);

/// Lets `settings` use what this machine keeps: measured costs, and the heads that ship with the
/// program.
void use_places(DecodeSettings& settings, const LoadedModel& loaded, KvType cache_type);
/// The heads that ship with the program and those that were pulled, with a note of what is passed
/// over.
HeadFinder heads_at_hand(const LoadedModel& loaded);
void note_head(std::string_view why);
/// Says which heads that `drafter` names were made for another model: no text would tell.
void note_heads_of_others(const std::string& drafter, const LoadedModel& loaded);

}  // namespace talon
