#include "draft/merged.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "draft/merged_score.h"
#include "model/tap_set.h"
#include "sample/temperature_class.h"

namespace talon {
namespace {

struct MergedState : DraftState {
  std::vector<std::unique_ptr<DraftState>> parts;
  std::optional<SourceCalibration> calibration;  // since it is known how tokens are drawn
  std::optional<MergedTree> proposed;  // since the last token was observed, before the cut
};

class MergedDrafter : public Drafter {
 public:
  explicit MergedDrafter(std::vector<MergedPart> parts) : parts_(std::move(parts)) {
    expects(parts_.size() >= 2 && parts_.size() <= kMostMergedParts,
            "2 to kMostMergedParts drafters");
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      part_traits_.push_back(drafter(part).traits());
      if (part_traits_.back().draws) {
        throw UsageError(
            fmt::format("drafter {}: draws its tokens, and so cannot be merged with others",
                        parts_[part].name));
      }
      readers_.push_back(taps_.add(part_traits_.back().taps));
      traits_.pass_bytes += part_traits_.back().pass_bytes;
      const auto& files = part_traits_.back().weight_files;
      traits_.weight_files.insert(traits_.weight_files.end(), files.begin(), files.end());
      traits_.sees_draws |= part_traits_.back().sees_draws;
      traits_.reads_cache |= part_traits_.back().reads_cache;
      if (!part_traits_.back().extends_trees) order_.push_back(part);
    }
    traits_.taps = taps_.taps();
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      if (part_traits_[part].extends_trees) order_.push_back(part);
    }
  }

  DrafterTraits traits() const override { return traits_; }

  std::unique_ptr<DraftState> start() override {
    auto state = std::make_unique<MergedState>();
    for (const MergedPart& part : parts_) state->parts.push_back(part.drafter->start());
    return state;
  }

  int remembers(std::span<const TokenId> prompt, const TextOwner& owner) override {
    int known = static_cast<int>(prompt.size());
    for (const MergedPart& part : parts_)
      known = std::min(known, part.drafter->remembers(prompt, owner));
    return known;
  }

  std::unique_ptr<DraftState> resume(std::span<const TokenId> known, const TextOwner& owner,
                                     std::span<const TokenId> expected) override {
    auto state = std::make_unique<MergedState>();
    for (const MergedPart& part : parts_)
      state->parts.push_back(part.drafter->resume(known, owner, expected));
    return state;
  }

  void observe(DraftState& draft_state, const CommittedTokens& committed) override {
    auto& state = static_cast<MergedState&>(draft_state);
    if (state.proposed) state.proposed->learn(committed.tokens, *state.calibration);
    state.proposed.reset();
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      CommittedTokens seen = committed;
      seen.features = taps_.columns(readers_[part], committed.features);
      seen.guide_features = taps_.columns(readers_[part], committed.guide_features);
      drafter(part).observe(*state.parts[part], seen);
    }
  }

  void saw(DraftState& draft_state, const DraftTree& tree, const TokenAfter& drawn) override {
    auto& state = static_cast<MergedState&>(draft_state);
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      if (part_traits_[part].sees_draws) drafter(part).saw(*state.parts[part], tree, drawn);
    }
  }

  long lost_rows() const override {
    return std::accumulate(parts_.begin(), parts_.end(), 0L, [](long rows, const MergedPart& part) {
      return rows + part.drafter->lost_rows();
    });
  }

  void finish(DraftState& draft_state, bool has_ended) override {
    auto& state = static_cast<MergedState&>(draft_state);
    for (std::size_t part = 0; part < parts_.size(); ++part)
      drafter(part).finish(*state.parts[part], has_ended);
  }

  void propose(std::span<DraftJob> jobs) override {
    for (DraftJob& job : jobs) {
      MergedState& state = state_of(job);
      const std::size_t kind = job.sampler ? draft_class(*job.sampler, job.races) : 0;
      if (!state.calibration) state.calibration.emplace(&calibrations_[kind]);
      state.proposed.emplace((*job.tree)[0].token);
    }
    for (const std::size_t part : order_) grow(part, jobs);
    for (DraftJob& job : jobs) {
      *job.tree = state_of(job).proposed->tree();
      job.tree->prune(job.plan.nodes);
    }
  }

 private:
  Drafter& drafter(std::size_t part) const { return *parts_[part].drafter; }
  static MergedState& state_of(const DraftJob& job) {
    return static_cast<MergedState&>(*job.state);
  }

  /// Lets one part grow a tree for every job, and merges it.
  void grow(std::size_t part, std::span<DraftJob> jobs) const {
    const bool extends = part_traits_[part].extends_trees;
    const std::uint32_t source = 1u << part;
    std::vector<DraftTree> trees;
    std::vector<DraftJob> part_jobs(jobs.begin(), jobs.end());
    for (const DraftJob& job : jobs) {
      const DraftTree& merged = state_of(job).proposed->tree();
      trees.push_back(extends ? merged : DraftTree(merged[0].token));
    }
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      part_jobs[i].state = state_of(jobs[i]).parts[part].get();
      part_jobs[i].state->prompt_length = jobs[i].state->prompt_length;
      part_jobs[i].tree = &trees[i];
      part_jobs[i].source = source;
      part_jobs[i].ran_passes = false;
      if (part_jobs[i].policy) part_jobs[i].policy->turn_to(source);
      if (extends) part_jobs[i].plan.nodes += trees[i].draft_nodes();
    }
    drafter(part).propose(part_jobs);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      jobs[i].ran_passes |= part_jobs[i].ran_passes;
      MergedState& state = state_of(jobs[i]);
      if (extends) {
        state.proposed->take_extended(std::move(trees[i]), source);
      } else {
        state.proposed->add(trees[i], source);
      }
      state.proposed->score(*state.calibration);
    }
  }

  std::vector<MergedPart> parts_;
  std::vector<DrafterTraits> part_traits_;
  DrafterTraits traits_;
  TapSet taps_;
  std::vector<TapSet::Reader> readers_;                        // of each part
  std::vector<std::size_t> order_;                             // in which the parts grow
  std::array<SourceCalibration, kDraftClasses> calibrations_;  // of all sequences, by draft_class()
};

}  // namespace

std::unique_ptr<Drafter> make_merged_drafter(std::vector<MergedPart> parts) {
  return std::make_unique<MergedDrafter>(std::move(parts));
}

}  // namespace talon
