#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "core/options.h"
#include "draft/coupling/coupling.h"
#include "draft/head/head_weights.h"
#include "draft/head/pair_runner.h"
#include "draft/registry.h"

namespace talon {

// Options that all drafters with a head share.

constexpr int kMostDraftNodes = 1024;
constexpr int kMostDraftLevels = 64;
constexpr int kMostDraftChildren = 64;

/// `head=PATH`, `weights=mixed` and how drafts use known noise.
std::vector<Option> head_options();
/// `weights=stored`: of a whole model in place of a head.
Option model_weights_option();
/// Throws UsageError for a target that draws pictures: the drafter is one for texts.
void expect_text(const Options& options, const DrafterContext& context);
/// `head=PATH`, or what the context knows of this kind. Throws UsageError if there is none.
std::string read_head_path(Options& options, const DrafterContext& context, std::string_view kind);
/// The drafters that take one kind of files.
constexpr std::string_view kEagleDrafters = "eagle, eagle2, eagle3 or peagle";
constexpr std::string_view kMedusaDrafters = "medusa";
constexpr std::string_view kBlockDrafters = "dflash or dspark";
/// Throws UsageError for the head of other drafters than these, naming those.
void expect_head_of(std::string_view drafters, const Options& options,
                    const Checkpoint& checkpoint);
/// The EAGLE head in `checkpoint`, whole.
std::shared_ptr<const HeadWeights> shared_head(const DrafterContext& context,
                                               const Checkpoint& checkpoint,
                                               const HeadOptions& options);
/// `window=N` and `sinks=N`: what of a text a head sees.
std::vector<Option> window_options();
/// What they say. The usual window is the head's `own`, where it has one (0: none), else as long as
/// the texts that Talon trained it with.
PairWindow read_window(Options& options, const Checkpoint& head, int own);
/// `weights=mixed` or `weights=stored`: how the head is kept, but for the output rows of a draft
/// vocabulary.
WeightLayout read_layout(Options& options);
/// `weights=mixed`: how the head and its output rows of a draft vocabulary are kept.
HeadOptions read_layouts(Options& options);
/// `coupled=on`, `beta=1.25` and `gamma=0.9`.
Coupling read_coupling(Options& options);
/// `coupled=on`.
Option coupled_option();
bool read_coupled(Options& options);

}  // namespace talon
