#pragma once

#include <filesystem>
#include <vector>

#include "draft/model/vocabulary_map.h"
#include "model/model.h"

namespace talon {

struct DraftModelOptions {
  WeightLayout layout = WeightLayout::as_stored;
  std::vector<int> skipped_layers;  // left out
};

/// A model that drafts for another, on its backend.
struct DraftModel {
  Model model;
  VocabularyMap vocabulary;
};

/// Loads the model at `path`, which may be the target's own file. Throws Error for one whose
/// vocabulary differs too much, that keeps a state in its layers, or that cannot do without the
/// layers to skip.
DraftModel load_draft_model(const std::filesystem::path& path, const Model& target,
                            const DraftModelOptions& options);

}  // namespace talon
