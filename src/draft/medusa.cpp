#include <algorithm>
#include <optional>

#include "backend/weight_layout.h"
#include "core/error.h"
#include "draft/drafters.h"
#include "draft/growth/named_trees.h"
#include "draft/head_options.h"
#include "draft/medusa/medusa_network.h"
#include "draft/medusa/product_tree.h"

namespace talon {
namespace {

struct MedusaOptions {
  int children;
  int levels;
  int nodes;
  Coupling coupling = {};
  std::optional<StaticTree> fixed = {};
};

/// The newest feature: that of the token before the root.
struct MedusaState : DraftState {
  Buffer feature;  // [1, hidden]
  bool known = false;
};

/// Medusa, arXiv:2401.10774: independent heads on the target's last feature guess the tokens at the
/// next places all at once; a tree of their products is checked. Has no cache: a round costs one
/// pass of the heads, whatever the tree.
class MedusaDrafter : public Drafter {
 public:
  MedusaDrafter(std::shared_ptr<const MedusaWeights> weights, const MedusaOptions& options)
      : weights_(std::move(weights)),
        backend_(*weights_->backend),
        options_(options),
        network_(*weights_, options.coupling, options.levels),
        features_(backend_.allocate(MedusaNetwork::kMostRows, weights_->config.hidden)) {}

  DrafterTraits traits() const override {
    return {.taps = {{FeatureTap::kFinalNorm}}, .weight_files = {weights_->source}};
  }

  std::unique_ptr<DraftState> start() override {
    auto state = std::make_unique<MedusaState>();
    state->feature = backend_.allocate(1, weights_->config.hidden);
    return state;
  }

  /// Only the newest row counts, and the last token of a prompt is always run.
  int remembers(std::span<const TokenId> prompt, const TextOwner&) override {
    return static_cast<int>(prompt.size());
  }

  void observe(DraftState& draft_state, const CommittedTokens& committed) override {
    auto& state = static_cast<MedusaState&>(draft_state);
    if (committed.features.rows == 0) return;
    const View newest = committed.features.row_range(committed.features.rows - 1, 1);
    backend_.copy(newest, state.feature.view());
    state.known = true;
  }

  void propose(std::span<DraftJob> jobs) override {
    std::vector<DraftJob*> wanted;
    for (DraftJob& job : jobs) {
      const bool known = static_cast<MedusaState&>(*job.state).known;
      if (known && job.plan.nodes > 0 && job.plan.levels > 0) wanted.push_back(&job);
    }
    constexpr std::size_t kBatch = MedusaNetwork::kMostRows;
    for (std::size_t first = 0; first < wanted.size(); first += kBatch) {
      propose_batch(std::span(wanted).subspan(first, std::min(kBatch, wanted.size() - first)));
    }
  }

 private:
  void propose_batch(std::span<DraftJob* const> jobs) {
    const View features = features_.rows(static_cast<int>(jobs.size()));
    for (int row = 0; row < features.rows; ++row) {
      auto& state = static_cast<MedusaState&>(*jobs[static_cast<std::size_t>(row)]->state);
      backend_.copy(state.feature.view(), features.row_range(row, 1));
    }
    std::vector<DraftPlace> places;
    for (const DraftJob* job : jobs) places.push_back(first_place(*job, options_.coupling));
    const std::vector<RowChildren> heads = network_.guess(features, options_.children, places);
    for (int row = 0; row < features.rows; ++row) {
      grow(ProductGuesses::of(heads, row), *jobs[static_cast<std::size_t>(row)]);
    }
  }

  void grow(const ProductGuesses& guesses, DraftJob& job) const {
    const int levels = std::min(options_.levels, job.plan.levels);
    const int nodes = std::min(options_.nodes, job.plan.nodes);
    if (options_.fixed) {
      const StaticTree shape = options_.fixed->cut(levels, options_.children);
      place_product_tree(guesses, shape, nodes, *job.tree);
    } else {
      grow_product_tree(guesses, levels, nodes, *job.tree);
    }
  }

  std::shared_ptr<const MedusaWeights> weights_;  // shared with drafters of other options
  Backend& backend_;
  MedusaOptions options_;
  MedusaNetwork network_;
  Buffer features_;  // [kMostRows, hidden]
};

std::unique_ptr<Drafter> make_medusa(Options& options, const DrafterContext& context) {
  MedusaOptions medusa{.children = options.whole("topk"),
                       .levels = options.whole_or("levels", kMostDraftLevels),
                       .nodes = options.whole("nodes")};
  const std::string& tree = options.text("tree");
  if (!tree.empty()) medusa.fixed = tree_of(tree);
  if (medusa.fixed && !options.is_given("topk")) medusa.children = medusa.fixed->children();
  medusa.coupling = read_coupling(options);
  const WeightLayout layout = read_layout(options);
  expect_text(options, context);
  const std::string path = read_head_path(options, context, "medusa");
  expects(context.target != nullptr, "a drafter with a head has a target");
  auto weights = context.weights<MedusaWeights>(fmt::format("{} {}", name_of(layout), path), [&] {
    const Checkpoint checkpoint = open_checkpoint(path);
    expect_head_of(kMedusaDrafters, options, checkpoint);
    MedusaWeights loaded = load_medusa(checkpoint, *context.target, layout);
    checkpoint.check_whole();
    return loaded;
  });
  return std::make_unique<MedusaDrafter>(std::move(weights), medusa);
}

}  // namespace

DrafterEntry medusa_drafter() {
  return {.name = "medusa",
          .summary =
              "Medusa (arXiv:2401.10774): independent heads guess the next places at once, "
              "and the likeliest products are checked",
          .options = joined(
              {{"topk", WholeNumber{1, kMostDraftChildren}, "10",
                "guesses of each head (with a tree: as many as it has)"},
               {"levels", WholeNumber{1, kMostDraftLevels}, "", "heads used (default: all)"},
               {"nodes", WholeNumber{1, kMostDraftNodes}, "63", "draft nodes, root excluded"},
               {"tree", FreeText{"TREE"}, "",
                "a fixed tree instead: " + static_tree_names() +
                    ", or a file with paths of ranks "
                    "as JSON (medusa_choices)"}},
              head_options()),
          .make = make_medusa,
          .needs_head = true};
}

}  // namespace talon
