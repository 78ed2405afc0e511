#include "cli/pull/pairing.h"

#include "cli/options/places.h"
#include "core/error.h"
#include "io/checkpoint.h"
#include "model/load/fingerprint.h"
#include "runtime/heads/auto_drafter.h"
#include "runtime/heads/head_kind.h"
#include "runtime/heads/heads.h"
#include "runtime/heads/pairing.h"
#include "runtime/model_source.h"

namespace talon {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> heads_that_fit(const PulledFiles& pulled, const ModelConfig& target) {
  std::vector<std::string> heads;
  for (const std::string& file : pulled.heads) {
    try {
      check_head_fits(open_checkpoint(pulled.folder / file), target);
      heads.push_back(file);
    } catch (const Error&) {
      continue;  // of a kind that is not known here, or of another model
    }
  }
  return heads;
}

Json pair_model(const PulledFiles& pulled, const Checkpoint& model, const fs::path& folder) {
  const ModelConfig config = read_model_config(model);
  const std::string fingerprint = fingerprint_of(model, config);
  const std::vector<std::string> heads = heads_that_fit(pulled, config);
  if (!heads.empty()) write_pairing(pulled.folder, heads, fingerprint);
  std::vector<fs::path> places = shipped_places();
  places.push_back(folder);
  const HeadFinder finder = heads_of(model, config, places);
  return {{"drafter", resolve_drafter("auto", finder, output_kind(config))}};
}

Json pair_head(const PulledFiles& pulled, const Checkpoint& head, const std::string& target,
               const fs::path& folder) {
  Json about = {{"kind", kind_of_head(head)}, {"paired_with", nullptr}};
  if (target.empty()) return about;
  const Checkpoint model = open_checkpoint(resolve_model(
      {.model = target, .models_folder = folder.string(), .shipped = shipped_places()}));
  const ModelConfig config = read_model_config(model);
  check_head_fits(head, config);
  std::vector<std::string> files;
  if (pulled.main != pulled.folder) {
    files.push_back(pulled.main.lexically_relative(pulled.folder).string());
  }
  write_pairing(pulled.folder, files, fingerprint_of(model, config));
  about["paired_with"] = target;
  return about;
}

}  // namespace

Json pair_pulled(const PulledFiles& pulled, const std::string& target, const fs::path& folder) {
  Checkpoint checkpoint;
  std::string kind;
  try {
    checkpoint = open_checkpoint(pulled.main);
    kind = kind_of_head(checkpoint);
  } catch (const Error& error) {
    return {{"problem", error.what()}};
  }
  if (!kind.empty()) return pair_head(pulled, checkpoint, target, folder);
  if (!target.empty()) {
    fail("pull: --for {}: expected a draft head, found {}", target, pulled.main.string());
  }
  try {
    return pair_model(pulled, checkpoint, folder);
  } catch (const Error& error) {
    return {{"problem", error.what()}};
  }
}

std::string pairing_text(const Json& pairing) {
  if (pairing.contains("problem")) {
    return "pulled, but it cannot be used here: " + pairing["problem"].get<std::string>();
  }
  if (pairing.contains("drafter")) {
    return fmt::format("`auto` drafts for it with {}", pairing["drafter"].get<std::string>());
  }
  const std::string kind = pairing["kind"].get<std::string>();
  if (pairing["paired_with"].is_null()) {
    return fmt::format("a head of kind {}: --for MODEL pairs it, -d {}:head=PATH uses it", kind,
                       kind);
  }
  return fmt::format("`auto` uses this {} head for {}", kind,
                     pairing["paired_with"].get<std::string>());
}

}  // namespace talon
