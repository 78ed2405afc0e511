#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "draft/registry.h"
#include "runtime/loaded_model.h"

namespace talon {

/// Told of each head that was passed over why it cannot be used.
using HeadWarnings = std::function<void(std::string_view why)>;

/// Finds the heads of the model with this fingerprint (model/load/fingerprint.h) in the folders of
/// `places`, and in theirs: the first of each kind, in the order of places and names, and the first
/// draft model (`draft`). Looks when it is first asked. A head of the model that cannot be read, as
/// one that was fetched in part, is passed over.
HeadFinder heads_in(std::vector<std::filesystem::path> places, std::string fingerprint,
                    HeadWarnings warn = {});

/// Those of a model whose files are open, in its own folder first. Where no file there or in the
/// places has a prediction layer of it, `mtp` is the model itself if it holds one that can be used.
HeadFinder heads_of(const Checkpoint& model, const ModelConfig& config,
                    std::vector<std::filesystem::path> places, HeadWarnings warn = {});
/// Those of a model that is loaded, also among pulled models; `mtp` may be the model itself, too.
HeadFinder heads_of(const LoadedModel& loaded, std::vector<std::filesystem::path> places,
                    HeadWarnings warn = {});

}  // namespace talon
