#include "draft/eagle/eagle_drafter.h"

#include <algorithm>
#include <utility>

#include "backend/index_list.h"
#include "core/error.h"
#include "draft/draft_cache.h"
#include "draft/drawn_law.h"
#include "draft/eagle/eagle_trees.h"
#include "draft/head/head_memory.h"
#include "draft/head/head_network.h"
#include "model/row_layout.h"

namespace talon {
namespace {

constexpr int kLeastPairRows = 128;  // of a pass: how many pairs of a prompt are run at once

/// Of one sequence; of a guided picture (SequenceRows::guidance) also the pairs of its guide.
struct EagleState : DraftState {
  explicit EagleState(std::unique_ptr<HeadState> pairs) : own(std::move(pairs)) {}

  bool can_draft() const { return !own->evicted && (!guide || (!guide->evicted && is_in_step())); }
  /// Both have all pairs, or as many of the newest.
  bool is_in_step() const {
    return guide->missing() == own->missing() || guide->remembered() == own->remembered();
  }
  /// Both kinds of pairs are run in one pass.
  int waiting_before_newest() const {
    return own->waiting_before_newest() + (guide ? guide->waiting_before_newest() : 0);
  }

  std::unique_ptr<HeadState> own, guide;
};

/// A tree while it grows, with its rows in flight behind the sequence's committed pairs.
struct GrowingTree {
  HeadState* state = nullptr;
  HeadState* guide = nullptr;  // null: none
  float guidance = 1;
  DraftTree* tree = nullptr;
  std::uint32_t source = 1;
  DraftPlace place;                          // where the children of its newest rows stand
  const SamplerOptions* drawn_as = nullptr;  // how its children are drawn; null: they are not
  int answered = 0;  // tokens of the answer before the children of its newest rows
  std::unique_ptr<TreeGrowth> growth;
  std::vector<TokenId> tokens;  // of the rows in flight
  std::vector<NodeId> parents;  // of the rows in flight; -1: the newest pair
  int newest = 0;               // first row of the newest level
  int first_output = 0;         // the newest level's in outputs_; at first the root's
};

class EagleDrafter : public Drafter {
 public:
  EagleDrafter(std::shared_ptr<const HeadWeights> head, const Model& target,
               const EagleOptions& options)
      : shared_(std::move(head)),
        head_(*shared_),
        backend_(*head_.backend),
        options_(options),
        context_(target.config.context),
        vocabulary_(target.config.vocabulary),
        streams_(target.config.image ? 2 : 1),
        cache_(backend_, draft_cache_shape(head_.cache_page(), options.cache_positions, context_)),
        network_(head_, options.coupling,
                 std::max(kLeastPairRows, streams_ * rows_per_level(options)),
                 std::min(context_, cache_.total_pages() * kPageRows), options.window),
        memory_(network_, cache_,
                target.config.rope.grid_columns > 0 ? target.config.vocabulary : INT32_MAX),
        parents_(backend_),
        features_(backend_.allocate(network_.max_rows(), head_.config.hidden)),
        outputs_(backend_.allocate(network_.max_rows(), head_.config.hidden)) {
    expects(!options_.draws || options_.fixed, "a tree whose children are drawn has a fixed shape");
  }

  DrafterTraits traits() const override {
    return {.taps = head_.taps,
            .extends_trees = !options_.fixed,
            .draws = options_.draws,
            .pass_bytes = head_.pass_bytes,
            .weight_files = {head_.source}};
  }
  std::unique_ptr<DraftState> start() override {
    return std::make_unique<EagleState>(memory_.start());
  }
  int remembers(std::span<const TokenId> prompt, const TextOwner& owner) override {
    return memory_.remembers(prompt, owner);
  }
  std::unique_ptr<DraftState> resume(std::span<const TokenId> known, const TextOwner& owner,
                                     std::span<const TokenId>) override {
    return std::make_unique<EagleState>(memory_.resume(known, owner));
  }
  void observe(DraftState& any_state, const CommittedTokens& committed) override {
    auto& state = static_cast<EagleState&>(any_state);
    memory_.observe(*state.own, committed);
    if (committed.guide_tokens.empty()) return state.guide.reset();  // or it has none yet
    if (!state.guide) state.guide = memory_.start(state.own->owner);
    memory_.observe(*state.guide, {.tokens = committed.guide_tokens,
                                   .first_position = committed.guide_first_position,
                                   .features = committed.guide_features,
                                   .first_has_row = committed.guide_first_position > 0});
    keep_in_step(state);
  }

  long lost_rows() const override { return memory_.lost_rows(); }

  void finish(DraftState& any_state, bool) override {
    auto& state = static_cast<EagleState&>(any_state);
    memory_.finish(*state.own);
    if (state.guide) memory_.finish(*state.guide);
  }

  void propose(std::span<DraftJob> jobs) override {
    std::vector<DraftJob> wanted;
    for (DraftJob& job : jobs) {
      const auto& state = static_cast<const EagleState&>(*job.state);
      if (!state.can_draft()) continue;
      if (job.policy && !job.policy->start(*job.tree, state.waiting_before_newest())) continue;
      job.ran_passes = true;
      wanted.push_back(job);
    }
    memory_.want(wanted.size());
    const auto guided = std::ranges::partition(wanted, [](const DraftJob& job) {
      return static_cast<EagleState*>(job.state)->guide == nullptr;
    });
    propose_in_batches({wanted.begin(), guided.begin()}, 1);
    propose_in_batches(guided, 2);
  }

 private:
  void propose_in_batches(std::span<DraftJob> jobs, int streams) {
    if (options_.draws)
      std::ranges::stable_partition(jobs,
                                    [&](const DraftJob& job) { return draws_tree(options_, job); });
    const auto most =
        static_cast<std::size_t>(network_.max_rows() / (streams * rows_per_level(options_)));
    for (std::size_t first = 0; first < jobs.size(); first += most) {
      propose_batch(jobs.subspan(first, std::min(most, jobs.size() - first)), streams);
    }
  }

  /// Where there is no room for the pairs of one, those of the other are of no use.
  void keep_in_step(EagleState& state) {
    if (!state.guide || state.own->evicted == state.guide->evicted) return;
    memory_.give_up(state.own->evicted ? *state.guide : *state.own);
  }

  void propose_batch(std::span<DraftJob> jobs, int streams);
  std::vector<GrowingTree> begin_trees(std::span<DraftJob> jobs);
  RowChildren children_of(std::span<const GrowingTree> trees, int rows, int streams);
  void read_laws(std::span<const GrowingTree> trees, int rows, const GuideFeatures& guide,
                 RowChildren& children);
  std::vector<std::int32_t> add_level(std::vector<GrowingTree>& trees, const RowChildren& children);
  void run_level(std::span<GrowingTree> trees, std::vector<std::int32_t> parent_outputs,
                 int parents, int streams);

  std::shared_ptr<const HeadWeights> shared_;  // with drafters of other options
  const HeadWeights& head_;
  Backend& backend_;
  EagleOptions options_;
  int context_;
  int vocabulary_;
  int streams_;  // at most, of a sequence
  KvCache cache_;
  HeadNetwork network_;
  HeadMemory memory_;
  IndexList parents_;
  // [rows of a level, H], with guides twice as many: rows of guides follow, in the same order
  Buffer features_;  // of the rows' parents
  Buffer outputs_;
};

/// docs/methods.md 3.2: run the newly committed pairs, then grow the trees together, one
/// level at a time.
void EagleDrafter::propose_batch(std::span<DraftJob> jobs, int streams) {
  std::vector<GrowingTree> trees = begin_trees(jobs);
  int rows = static_cast<int>(trees.size());
  while (rows > 0) {
    const RowChildren children = children_of(trees, rows, streams);
    std::vector<std::int32_t> parent_outputs = add_level(trees, children);
    const int parents = std::exchange(rows, static_cast<int>(parent_outputs.size()));
    if (rows > 0) run_level(trees, std::move(parent_outputs), parents, streams);
  }
}

/// Of the first `rows` outputs, which those of their guides follow.
RowChildren EagleDrafter::children_of(std::span<const GrowingTree> trees, int rows, int streams) {
  std::vector<DraftPlace> places(static_cast<std::size_t>(rows));
  std::vector<float> scale(places.size());
  for (const GrowingTree& tree : trees) {
    const auto first = static_cast<std::ptrdiff_t>(tree.first_output);
    std::fill(places.begin() + first, places.end(), tree.place);
    std::fill(scale.begin() + first, scale.end(), tree.guidance);
  }
  const int count = children_per_row(options_);
  const View outputs = outputs_.view();
  const GuideFeatures guide{streams == 2 ? outputs.row_range(rows, rows) : View{}, scale};
  RowChildren children;
  const auto is_drawn = [](const GrowingTree& tree) { return tree.drawn_as != nullptr; };
  if (!std::ranges::all_of(trees, is_drawn))
    children = network_.top_children(outputs.row_range(0, rows), count, places, guide);
  if (options_.draws) read_laws(trees, rows, guide, children);
  return children;
}

/// Of the rows of trees whose children are drawn, which lie before those of the others.
void EagleDrafter::read_laws(std::span<const GrowingTree> trees, int rows,
                             const GuideFeatures& guide, RowChildren& children) {
  children.laws.resize(static_cast<std::size_t>(rows));
  std::vector<const GrowingTree*> tree_of;  // of each row
  for (std::size_t i = 0; i < trees.size() && trees[i].drawn_as; ++i) {
    const int end = i + 1 < trees.size() ? trees[i + 1].first_output : rows;
    tree_of.resize(static_cast<std::size_t>(end), &trees[i]);
  }
  if (tree_of.empty()) return;
  const auto count = static_cast<int>(tree_of.size());
  GuideFeatures beside;
  if (guide.features)
    beside = {guide.features.row_range(0, count), guide.scale.first(tree_of.size())};
  const std::vector<float> logits = network_.logits(outputs_.view().row_range(0, count), beside);
  const std::size_t width = logits.size() / tree_of.size();
  for (std::size_t row = 0; row < tree_of.size(); ++row) {
    const GrowingTree& tree = *tree_of[row];
    children.laws[row] =
        drawn_law(std::span(logits).subspan(row * width, width), head_.target_token, vocabulary_,
                  {*tree.drawn_as, tree.answered});
  }
}

/// Brings the caches up to date and puts what the head predicts after each root into outputs_.
std::vector<GrowingTree> EagleDrafter::begin_trees(std::span<DraftJob> jobs) {
  std::vector<HeadState*> states;
  for (const DraftJob& job : jobs) {
    auto& state = static_cast<EagleState&>(*job.state);
    states.push_back(state.own.get());
    if (state.guide) states.push_back(state.guide.get());
  }
  memory_.extend(states);
  std::vector<GrowingTree> trees;
  for (const DraftJob& job : jobs) {
    auto& state = static_cast<EagleState&>(*job.state);
    keep_in_step(state);
    const int length = state.own->cache.length();
    const int most_levels = std::min(job.plan.levels, context_ - length);
    if (!state.can_draft() || length == 0 || most_levels < 1 ||
        job.plan.nodes <= job.tree->draft_nodes())
      continue;
    const int row = static_cast<int>(trees.size());
    GrowingTree tree;
    tree.state = state.own.get();
    tree.guide = state.guide.get();
    tree.guidance = job.guidance;
    tree.tree = job.tree;
    tree.source = job.source;
    tree.place = first_place(job, options_.coupling);
    if (draws_tree(options_, job)) tree.drawn_as = job.sampler;
    tree.answered = job.answered();
    tree.growth = grow_tree(options_, job, most_levels);
    tree.first_output = row;
    trees.push_back(std::move(tree));
  }
  int row = 0;
  for (const GrowingTree& tree : trees)
    backend_.copy(tree.state->output.view(), outputs_.view().row_range(row++, 1));
  for (const GrowingTree& tree : trees)
    if (tree.guide) backend_.copy(tree.guide->output.view(), outputs_.view().row_range(row++, 1));
  return trees;
}

/// Gives each tree the children of its newest rows, finishes those that are complete, and returns
/// for each row to run next which output its parent has.
std::vector<std::int32_t> EagleDrafter::add_level(std::vector<GrowingTree>& trees,
                                                  const RowChildren& children) {
  std::vector<std::int32_t> parent_outputs;
  std::erase_if(trees, [&](GrowingTree& tree) {
    const auto rows = tree.growth->grow(children, tree.first_output);
    const int in_flight = static_cast<int>(tree.tokens.size());
    const int most = in_flight + static_cast<int>(rows.size());
    const bool has_room =
        tree.state->cache.reserve(most) && (!tree.guide || tree.guide->cache.reserve(most));
    if (rows.empty() || !has_room) {
      tree.growth->finish(*tree.tree, tree.source);
      return true;
    }
    const int first_output = static_cast<int>(parent_outputs.size());
    for (const GrowthRow& row : rows) {
      tree.tokens.push_back(row.token);
      tree.parents.push_back(row.parent);
      parent_outputs.push_back(tree.first_output + (row.parent < 0 ? 0 : row.parent - tree.newest));
    }
    tree.newest = in_flight;
    tree.first_output = first_output;
    ++tree.answered;
    tree.place = tree.place.after(1);
    return false;
  });
  return parent_outputs;
}

/// Runs the newest rows of all trees, then those of their guides: each pairs its token with what
/// the head predicted for its parent, one of `parents` outputs.
void EagleDrafter::run_level(std::span<GrowingTree> trees, std::vector<std::int32_t> parent_outputs,
                             int parents, int streams) {
  std::vector<SequenceRows> batch;
  for (int stream = 0; stream < streams; ++stream) {
    for (GrowingTree& tree : trees) {
      HeadState& state = stream == 0 ? *tree.state : *tree.guide;
      batch.push_back({.sequence = &state.cache, .tokens = tree.tokens, .parents = tree.parents});
      batch.back().picture_prompt = state.picture_prompt;
    }
  }
  AttentionLayout layout;
  lay_out_rows(batch, layout);
  std::vector<AttentionRow> newest_rows;
  std::vector<TokenId> tokens;
  std::size_t row = 0;
  for (std::size_t part = 0; part < batch.size(); ++part) {
    const GrowingTree& tree = trees[part % trees.size()];
    for (std::size_t i = 0; i < tree.tokens.size(); ++i, ++row) {
      if (i < static_cast<std::size_t>(tree.newest)) continue;
      newest_rows.push_back(layout.rows[row]);
      tokens.push_back(tree.tokens[i]);
    }
  }
  layout.rows = std::move(newest_rows);
  if (streams == 2) {
    const std::vector<std::int32_t> own = parent_outputs;
    for (const std::int32_t output : own) parent_outputs.push_back(parents + output);
  }
  const int rows = static_cast<int>(tokens.size());
  const View features = features_.rows(rows);
  backend_.gather_rows(outputs_.view(), parents_.put(parent_outputs), features);
  network_.forward({.tokens = tokens,
                    .layout = &layout,
                    .cache = &cache_.store(),
                    .features = features,
                    .from_target = false,
                    .out = outputs_.rows(rows)});
}

}  // namespace

std::unique_ptr<Drafter> make_eagle_drafter(std::shared_ptr<const HeadWeights> head,
                                            const Model& target, const EagleOptions& options) {
  return std::make_unique<EagleDrafter>(std::move(head), target, options);
}

}  // namespace talon
