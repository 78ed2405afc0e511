#include "draft/gemma4_assistant/assistant_drafter.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/index_list.h"
#include "core/error.h"
#include "draft/drawn_law.h"
#include "draft/eagle/eagle_trees.h"
#include "draft/gemma4_assistant/assistant_network.h"

namespace talon {
namespace {

constexpr int kLeastAssistantRows = 64;  // of a pass

/// The newest feature: that of the token before the root.
struct AssistantState : DraftState {
  Buffer feature;  // [1, hidden size of the target]
  bool is_known = false;
};

/// A tree while it grows.
struct AssistantTree {
  DraftJob* job = nullptr;
  DraftPlace place;       // where the children of its newest rows stand
  bool is_drawn = false;  // its children are
  int answered = 0;       // tokens of the answer before the children of its newest rows
  std::unique_ptr<TreeGrowth> growth;
  std::vector<GrowthRow> rows;  // the newest level; at first the root
  int asked = 0;                // rows that its growth has asked for
  int newest = 0;               // the first of them on the newest level
  int first_row = 0;            // the newest level's in the pass
};

class AssistantDrafter : public Drafter {
 public:
  AssistantDrafter(std::shared_ptr<const Gemma4AssistantWeights> assistant,
                   const EagleOptions& options)
      : weights_(std::move(assistant)),
        target_(*weights_->target),
        backend_(*target_.backend),
        options_(options),
        network_(*weights_, options.coupling,
                 std::max(kLeastAssistantRows, rows_per_level(options)),
                 most_positions(options, target_.config.context)),
        parents_(backend_) {
    expects(!options_.draws || options_.fixed, "a tree whose children are drawn has a fixed shape");
  }

  DrafterTraits traits() const override {
    return {.taps = {{FeatureTap::kFinalNorm}},
            .extends_trees = !options_.fixed,
            .draws = options_.draws,
            .reads_cache = true,
            .pass_bytes = weights_->pass_bytes,
            .weight_files = {weights_->source}};
  }

  std::unique_ptr<DraftState> start() override {
    auto state = std::make_unique<AssistantState>();
    state->feature = backend_.allocate(1, target_.config.hidden);
    return state;
  }

  /// Only the newest row counts, and the last token of a prompt is always run.
  int remembers(std::span<const TokenId> prompt, const TextOwner&) override {
    return static_cast<int>(prompt.size());
  }

  void observe(DraftState& draft_state, const CommittedTokens& committed) override {
    auto& state = static_cast<AssistantState&>(draft_state);
    if (committed.features.rows == 0) return;
    const View newest = committed.features.row_range(committed.features.rows - 1, 1);
    backend_.copy(newest, state.feature.view());
    state.is_known = true;
  }

  void propose(std::span<DraftJob> jobs) override {
    std::vector<DraftJob*> wanted;
    for (DraftJob& job : jobs) {
      if (!can_draft(job)) continue;
      if (job.policy && !job.policy->start(*job.tree, 0)) continue;
      job.ran_passes = true;
      wanted.push_back(&job);
    }
    const auto most = static_cast<std::size_t>(network_.max_rows() / rows_per_level(options_));
    for (std::size_t first = 0; first < wanted.size(); first += most)
      propose_batch(std::span(wanted).subspan(first, std::min(most, wanted.size() - first)));
  }

 private:
  static int most_positions(const EagleOptions& options, int context) {
    if (options.cache_positions == 0) return context;
    return static_cast<int>(std::min(static_cast<std::size_t>(context), options.cache_positions));
  }

  bool can_draft(const DraftJob& job) const {
    return static_cast<const AssistantState&>(*job.state).is_known && job.text &&
           job.text->length() > 0 && job.text->length() < network_.positions() &&
           job.plan.levels > 0 && job.plan.nodes > job.tree->draft_nodes();
  }

  void propose_batch(std::span<DraftJob* const> jobs);
  std::vector<AssistantTree> begin_trees(std::span<DraftJob* const> jobs);
  void run(std::span<const AssistantTree> trees);
  RowChildren children_of(std::span<const AssistantTree> trees, int rows);
  void read_laws(std::span<const AssistantTree> trees, int rows, RowChildren& children);
  std::vector<std::int32_t> add_level(std::vector<AssistantTree>& trees,
                                      const RowChildren& children);

  std::shared_ptr<const Gemma4AssistantWeights> weights_;  // with drafters of other options
  const Model& target_;
  Backend& backend_;
  EagleOptions options_;
  Gemma4AssistantNetwork network_;
  IndexList parents_;
};

/// Runs the roots, then grows the trees together, one level at a time.
void AssistantDrafter::propose_batch(std::span<DraftJob* const> jobs) {
  std::vector<AssistantTree> trees = begin_trees(jobs);
  auto rows = static_cast<int>(trees.size());
  while (rows > 0) {
    run(trees);
    const std::vector<std::int32_t> parents = add_level(trees, children_of(trees, rows));
    rows = static_cast<int>(parents.size());
    if (rows > 0)
      backend_.gather_rows(network_.states(network_.max_rows()), parents_.put(parents),
                           network_.features(rows));
  }
}

/// A row for each: its root, beside the feature of the token before.
std::vector<AssistantTree> AssistantDrafter::begin_trees(std::span<DraftJob* const> jobs) {
  std::vector<AssistantTree> trees;
  const View features = network_.features(static_cast<int>(jobs.size()));
  for (DraftJob* job : jobs) {
    const auto row = static_cast<int>(trees.size());
    const auto& state = static_cast<const AssistantState&>(*job->state);
    backend_.copy(state.feature.view(), features.row_range(row, 1));
    AssistantTree& tree = trees.emplace_back();
    tree.job = job;
    tree.place = first_place(*job, options_.coupling);
    tree.is_drawn = draws_tree(options_, *job);
    tree.answered = job->answered();
    tree.growth = grow_tree(options_, *job, job->plan.levels);
    tree.rows.push_back({.token = (*job->tree)[0].token});
    tree.first_row = row;
  }
  return trees;
}

/// The newest rows of all trees, whose features are in place.
void AssistantDrafter::run(std::span<const AssistantTree> trees) {
  std::vector<TokenId> tokens;
  std::vector<const KvSequence*> texts;
  for (const AssistantTree& tree : trees) {
    for (const GrowthRow& row : tree.rows) tokens.push_back(row.token);
    texts.resize(tokens.size(), tree.job->text);
  }
  network_.forward(tokens, texts);
}

RowChildren AssistantDrafter::children_of(std::span<const AssistantTree> trees, int rows) {
  std::vector<DraftPlace> places;
  for (const AssistantTree& tree : trees)
    places.resize(places.size() + tree.rows.size(), tree.place);
  RowChildren children;
  if (!std::ranges::all_of(trees, &AssistantTree::is_drawn))
    children = network_.top_children(rows, children_per_row(options_), places);
  if (std::ranges::any_of(trees, &AssistantTree::is_drawn)) read_laws(trees, rows, children);
  return children;
}

/// Of rows of trees whose children are drawn.
void AssistantDrafter::read_laws(std::span<const AssistantTree> trees, int rows,
                                 RowChildren& children) {
  const std::vector<float> logits = network_.logits(rows);
  const std::size_t width = logits.size() / static_cast<std::size_t>(rows);
  children.laws.resize(static_cast<std::size_t>(rows));
  for (const AssistantTree& tree : trees) {
    if (!tree.is_drawn) continue;
    const auto first = static_cast<std::size_t>(tree.first_row);
    for (std::size_t row = first; row < first + tree.rows.size(); ++row) {
      children.laws[row] =
          drawn_law(std::span(logits).subspan(row * width, width), network_.target_token(),
                    target_.config.vocabulary, {*tree.job->sampler, tree.answered});
    }
  }
}

/// Gives each tree the children of its newest rows, finishes those that are complete, and returns
/// the parent in the last pass of each row to run next.
std::vector<std::int32_t> AssistantDrafter::add_level(std::vector<AssistantTree>& trees,
                                                      const RowChildren& children) {
  std::vector<std::int32_t> parents;
  std::erase_if(trees, [&](AssistantTree& tree) {
    const auto rows = tree.growth->grow(children, tree.first_row);
    if (rows.empty()) {
      tree.growth->finish(*tree.job->tree, tree.job->source);
      return true;
    }
    const auto first_row = static_cast<int>(parents.size());
    for (const GrowthRow& row : rows)
      parents.push_back(tree.first_row + (row.parent < 0 ? 0 : row.parent - tree.newest));
    tree.rows.assign(rows.begin(), rows.end());
    tree.newest = tree.asked;
    tree.asked += static_cast<int>(rows.size());
    tree.first_row = first_row;
    tree.place = tree.place.after(1);
    ++tree.answered;
    return false;
  });
  return parents;
}

}  // namespace

std::unique_ptr<Drafter> make_gemma4_assistant_drafter(
    std::shared_ptr<const Gemma4AssistantWeights> assistant, const EagleOptions& options) {
  return std::make_unique<AssistantDrafter>(std::move(assistant), options);
}

}  // namespace talon
