#include "cli/inspect_drafts.h"

#include "cli/options/opened_model.h"
#include "cli/options/places.h"
#include "core/error.h"
#include "model/config/config.h"
#include "model/load/fingerprint.h"
#include "runtime/cache_budget.h"
#include "runtime/heads/auto_drafter.h"
#include "runtime/heads/head_kind.h"
#include "runtime/heads/heads.h"

namespace talon {
namespace {

HeadFinder finder_for(const Checkpoint& model, const ModelConfig& config,
                      const ModelOptions& options) {
  std::vector<std::filesystem::path> places = shipped_places();
  const std::string pulled = models_folder(options.models_folder);
  if (!pulled.empty()) places.emplace_back(pulled);
  return heads_of(model, config, places, note_head);
}

}  // namespace

Json inspect_drafts(const Checkpoint& model, const ModelOptions& options) {
  const ModelConfig config = read_model_config(model);
  const HeadFinder finder = finder_for(model, config, options);
  Json heads = Json::object();
  for (const std::string_view kind : kHeadKinds) {
    if (const std::string path = finder(kind); !path.empty()) heads[std::string(kind)] = path;
  }
  return {{"fingerprint", fingerprint_of(model, config)},
          {"auto", resolve_drafter("auto", finder, output_kind(config))},
          {"heads", std::move(heads)}};
}

Json inspect_cache(const Checkpoint& model, const ModelOptions& options) {
  const ModelConfig config = read_model_config(model);
  ModelSource chosen = source_of(options);
  chosen.activations = activations_for(options, config);
  const KvType type = options.kv.value_or(make_backend(chosen)->traits().cache);
  const auto positions = static_cast<std::size_t>(config.context);
  const std::size_t whole_pages = (positions + kPageRows - 1) / kPageRows * kPageRows;
  return {{"cache_type", name_of(type)},
          {"cache_positions", positions},
          {"cache_bytes", kv_cache_bytes(config, type, whole_pages)}};
}

Json inspect_fit(const Checkpoint& head, const ModelOptions& target) {
  const Checkpoint model = open_files(source_of(target));
  const ModelConfig config = read_model_config(model);
  Json json = {{"target", target.model}, {"fits", true}, {"problem", nullptr}, {"paired", false}};
  try {
    check_head_fits(head, config);
    const HeadFinder finder = finder_for(model, config, target);
    const std::string paired = finder(kind_of_head(head));
    std::error_code ignored;
    json["paired"] = !paired.empty() && std::filesystem::equivalent(paired, head.path, ignored);
  } catch (const Error& error) {
    json["fits"] = false;
    json["problem"] = error.what();
  }
  return json;
}

}  // namespace talon
