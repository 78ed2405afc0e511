#include "draft/block/block_drafter.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "draft/block/block_network.h"
#include "draft/block/markov_output.h"
#include "draft/block/parallel_network.h"
#include "draft/draft_cache.h"
#include "draft/growth/dynamic_tree.h"
#include "draft/head/head_memory.h"
#include "draft/medusa/product_tree.h"

namespace talon {
namespace {

constexpr int kUsualParallelGuesses = 7;

/// A tree whose branches grow by the token before.
struct Branching {
  DraftJob* job = nullptr;
  DraftPlace place;  // where the children of its newest rows stand
  int first_slot = 0;
  std::unique_ptr<TreeGrowth> growth;
  std::vector<TokenId> newest;      // tokens whose children come next
  std::vector<std::int32_t> above;  // of each the row of the node above in the call before
  int first_newest = -1;            // counted over the rows that the growth asked for; -1: the root
};

/// What either kind of head is made of.
struct BlockHead {
  // Shared with drafters of other options. Null: it is of the other kind.
  std::shared_ptr<const BlockWeights> block;
  std::shared_ptr<const HeadWeights> parallel;

  Backend& backend() const { return block ? *block->backend : *parallel->backend; }
  const std::filesystem::path& source() const { return block ? block->source : parallel->source; }
  const std::vector<FeatureTap>& taps() const { return block ? block->taps : parallel->taps; }
  const Weight& output() const { return block ? *block->output : *parallel->output; }
  const LogitForm& logit_form() const { return block ? block->logit_form : parallel->logit_form; }
  std::span<const TokenId> target_token() const {
    return block ? block->target_token : parallel->target_token;
  }
  bool branches() const { return block && block->config.markov_rank > 0; }
  KvShape cache_page() const {
    if (parallel) return parallel->cache_page();
    const BlockConfig& c = block->config;
    return {c.layers, c.kv_heads, c.head_dim, 1, KvType::f32};
  }
  std::unique_ptr<SlotNetwork> network(const BlockOptions& options, int positions) const {
    const int places = options.places;
    if (block) {
      const BlockConfig& c = block->config;
      const int wanted = places > 0 ? std::min(places, c.guesses()) : c.guesses();
      return std::make_unique<BlockNetwork>(*block, wanted + c.first_guess(), positions,
                                            options.window);
    }
    const int made_for = parallel->config.parallel_drafts;
    const int usual = made_for > 0 ? made_for : kUsualParallelGuesses;
    return std::make_unique<ParallelNetwork>(*parallel, places > 0 ? places : usual, positions,
                                             options.window);
  }
};

class BlockDrafter : public Drafter {
 public:
  BlockDrafter(BlockHead head, const Model& target, const BlockOptions& options)
      : head_(std::move(head)),
        backend_(head_.backend()),
        options_(options),
        cache_(backend_, draft_cache_shape(head_.cache_page(), options.cache_positions,
                                           target.config.context)),
        network_(head_.network(options,
                               std::min(target.config.context, cache_.total_pages() * kPageRows))),
        memory_(*network_, cache_),
        output_(backend_, head_.output(), head_.target_token(), options.coupling,
                head_.logit_form()),
        slots_(backend_.allocate(network_->max_rows(), network_->hidden())) {
    if (head_.branches()) markov_.emplace(*head_.block, output_);
  }

  DrafterTraits traits() const override {
    return {.taps = head_.taps(), .extends_trees = true, .weight_files = {head_.source()}};
  }
  std::unique_ptr<DraftState> start() override { return memory_.start(); }
  int remembers(std::span<const TokenId> prompt, const TextOwner& owner) override {
    return memory_.remembers(prompt, owner);
  }
  std::unique_ptr<DraftState> resume(std::span<const TokenId> known, const TextOwner& owner,
                                     std::span<const TokenId>) override {
    return memory_.resume(known, owner);
  }
  void observe(DraftState& state, const CommittedTokens& committed) override {
    memory_.observe(static_cast<HeadState&>(state), committed);
  }
  long lost_rows() const override { return memory_.lost_rows(); }
  void finish(DraftState& state, bool) override { memory_.finish(static_cast<HeadState&>(state)); }

  void propose(std::span<DraftJob> jobs) override {
    std::vector<DraftJob*> wanted;
    std::vector<HeadState*> states;
    for (DraftJob& job : jobs) {
      const bool has_room = job.plan.levels > 0 && job.plan.nodes > job.tree->draft_nodes();
      auto& state = static_cast<HeadState&>(*job.state);
      if (!has_room || state.evicted) continue;
      if (job.policy && !job.policy->start(*job.tree, state.waiting_before_newest())) continue;
      job.ran_passes = true;
      wanted.push_back(&job);
      states.push_back(&state);
    }
    memory_.want(wanted.size());
    memory_.extend(states);
    std::erase_if(wanted, [&](DraftJob* job) {
      auto& state = static_cast<HeadState&>(*job->state);
      const bool knows = !state.evicted && state.cache.length() > 0;
      return !knows || !state.cache.reserve(network_->rows_in_flight());
    });
    const std::span batch(wanted);
    const std::size_t most = most_jobs();
    for (std::size_t first = 0; first < batch.size(); first += most) {
      propose_batch(batch.subspan(first, std::min(most, batch.size() - first)));
    }
  }

 private:
  std::size_t most_jobs() const {
    const int rows = std::max({network_->rows_in_flight(), network_->guesses(), 1});
    int most = network_->max_rows() / rows;
    if (markov_) {
      most = std::min(most, OutputHead::kMostRows / std::max(network_->guesses(), width()));
    }
    return static_cast<std::size_t>(std::max(1, most));
  }
  int width() const { return std::min(options_.children, OutputHead::kMostRows); }

  int levels(const DraftJob& job) const {
    return std::min({options_.levels, job.plan.levels, network_->guesses()});
  }
  int nodes(const DraftJob& job) const {
    return std::min(options_.nodes, job.plan.nodes - job.tree->draft_nodes());
  }

  void propose_batch(std::span<DraftJob* const> jobs) {
    std::vector<BlockRoot> roots;
    for (const DraftJob* job : jobs) {
      roots.push_back({static_cast<HeadState*>(job->state), (*job->tree)[0].token});
    }
    const View slots = slots_.rows(static_cast<int>(jobs.size()) * network_->guesses());
    network_->guess(roots, cache_.store(), slots);
    if (markov_) {
      grow_branches(jobs, slots);
    } else {
      grow_products(jobs, slots);
    }
  }

  /// Best first over the products of the places' guesses (arXiv:2604.12989).
  void grow_products(std::span<DraftJob* const> jobs, const View& slots) {
    const int guesses = network_->guesses();
    std::vector<DraftPlace> places;
    for (const DraftJob* job : jobs) {
      const DraftPlace first = first_place(*job, options_.coupling);
      for (int level = 0; level < guesses; ++level) places.push_back(first.after(level));
    }
    const RowChildren children =
        output_.top_children(slots, options_.children, places, network_->output_norm());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const auto of_job = ProductGuesses::of_rows(children, static_cast<int>(i) * guesses, guesses);
      DraftJob& job = *jobs[i];
      grow_product_tree(of_job, levels(job), nodes(job), *job.tree, job.source);
    }
  }

  /// Level by level, as dynamic trees of EAGLE-2 do, without a pass of the network.
  void grow_branches(std::span<DraftJob* const> jobs, const View& slots) {
    markov_->set_places(slots);
    std::vector<Branching> trees;
    for (DraftJob* job : jobs) {
      Branching& tree = trees.emplace_back();
      tree.job = job;
      tree.place = first_place(*job, options_.coupling);
      tree.first_slot = static_cast<int>(trees.size() - 1) * network_->guesses();
      const DynamicTreeShape shape{width(), width(), levels(*job), nodes(*job)};
      tree.growth = grow_dynamic_tree(shape, {job->policy, job->plan.ask_after}, *job->tree);
      tree.newest = {(*job->tree)[0].token};
      tree.above = {MarkovOutput::kNoRow};
    }
    for (int level = 0; !trees.empty(); ++level) grow_level(trees, level);
  }

  void grow_level(std::vector<Branching>& trees, int level) {
    std::vector<std::int32_t> slot, above;
    std::vector<TokenId> previous;
    std::vector<DraftPlace> places;
    for (const Branching& tree : trees) {
      slot.resize(slot.size() + tree.newest.size(), tree.first_slot + level);
      places.resize(slot.size(), tree.place.after(level));
      previous.insert(previous.end(), tree.newest.begin(), tree.newest.end());
      above.insert(above.end(), tree.above.begin(), tree.above.end());
    }
    RowChildren children = markov_->children(slot, previous, above, width(), places);
    if (options_.stop > 0 && head_.block->confidence) end_unsure(slot, previous, children);
    int row = 0;
    std::erase_if(trees, [&](Branching& tree) {
      const auto rows = tree.growth->grow(children, row);
      const int to_call = row - tree.first_newest;
      const int asked = static_cast<int>(tree.newest.size());
      row += asked;
      tree.first_newest += asked;
      tree.newest.clear();
      tree.above.clear();
      for (const GrowthRow& next : rows) {
        tree.newest.push_back(next.token);
        tree.above.push_back(to_call + next.parent);
      }
      if (!rows.empty()) return false;
      tree.growth->finish(*tree.job->tree, tree.job->source);
      return true;
    });
  }

  /// Takes the children of rows whose choice the head does not trust.
  void end_unsure(std::span<const std::int32_t> slot, std::span<const TokenId> previous,
                  RowChildren& children) {
    const std::vector<float> sure = markov_->confidence(slot, previous);
    for (std::size_t row = 0; row < sure.size(); ++row) {
      if (sure[row] >= options_.stop) continue;
      const auto count = static_cast<std::size_t>(children.count);
      const auto first = children.log_p.begin() + static_cast<std::ptrdiff_t>(row * count);
      std::fill_n(first, count, -std::numeric_limits<float>::infinity());
    }
  }

  BlockHead head_;
  Backend& backend_;
  BlockOptions options_;
  KvCache cache_;
  std::unique_ptr<SlotNetwork> network_;
  HeadMemory memory_;
  OutputHead output_;
  std::optional<MarkovOutput> markov_;
  Buffer slots_;  // [max_rows, H]
};

}  // namespace

std::unique_ptr<Drafter> make_block_drafter(std::shared_ptr<const BlockWeights> head,
                                            const Model& target, const BlockOptions& options) {
  BlockHead either;
  either.block = std::move(head);
  return std::make_unique<BlockDrafter>(std::move(either), target, options);
}

std::unique_ptr<Drafter> make_parallel_drafter(std::shared_ptr<const HeadWeights> head,
                                               const Model& target, const BlockOptions& options) {
  BlockHead either;
  either.parallel = std::move(head);
  return std::make_unique<BlockDrafter>(std::move(either), target, options);
}

}  // namespace talon
