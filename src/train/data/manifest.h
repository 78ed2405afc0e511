#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/cpu.h"
#include "io/json.h"
#include "train/data/dataset.h"
#include "train/data/shard.h"

namespace talon {

/// manifest.json of a folder of training data (docs/formats.md): which target answered, and what
/// was asked, how and under which licences.
struct Manifest {
  DatasetInfo info;
  Json target_settings = Json::object();  // how the target computed: weights, activations, cache
  Json runs = Json::array();              // one object for each kind of run into this folder
  Json counts = Json::object();           // as of when a run last ended

  /// What shards of this folder carry.
  ShardKind shard_kind() const;
};

/// The setting "activations": 8 and 16 as numbers, which folders of earlier versions have, too,
/// mixed as a word.
Json activations_json(Activations activations);

/// Nothing if there is none. Throws Error naming file and field.
std::optional<Manifest> read_manifest(const std::filesystem::path& folder);

/// Adds a run to the folder's manifest, which is made if it is missing; a run that is in it already
/// stays as it is. Several processes may do so at once. Throws Error naming the setting if the
/// folder holds data of another target.
Manifest add_run(const std::filesystem::path& folder, const Manifest& target, const Json& run);
/// Counts the conversations in the folder and writes that into its manifest.
void update_counts(const std::filesystem::path& folder);

/// SHA-256 of a file; of a folder: of the names and sums of its files.
std::string model_checksum(const std::filesystem::path& model);

}  // namespace talon
