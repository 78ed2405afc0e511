#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "tree/policies/policies.h"

namespace talon {
namespace {

// A sequence may lose this much before it has won anything, so that the worst case is a known
// fraction of plain decoding.
constexpr double kStartStake = 0.5;       // tokens' worth of time
constexpr double kStakePerToken = 0.007;  // that each token adds
constexpr double kRateMemory = 0.95;   // weight of the past in the running tokens per millisecond
constexpr double kCheapDraft = 0.005;  // of a plain step: drafts this cheap are always worth a look
constexpr int kLongestPause = 64;  // rounds without a look at what an expensive drafter proposes
constexpr int kTreeWidth = 10;

/// Drafting for throughput (DESIGN 5): draft nodes are bought in order of their calibrated chance
/// to become text, up to the count where the tokens they bring, less the time they take at the
/// current tokens per millisecond, are most. The cost of rows comes from CostModel, the chances
/// from Calibration, which also learns from nodes that were proposed but not bought. A stake bounds
/// the loss: what drafting may cost beyond what it has already gained.
class ThroughputPolicy : public TreePolicy {
 public:
  explicit ThroughputPolicy(SharedEstimates& shared)
      : shared_(shared), calibration_(&shared.calibration), proposed_(0) {}

  TreePlan plan(const PlanContext& context) override {
    proposed_.reset(0);
    if (context.rows_available == 0 || context.levels_available == 0) return {};
    if (pause_left_ > 0) {
      --pause_left_;
      return {};
    }
    return {context.rows_available, context.levels_available,
            std::min(kTreeWidth, context.rows_available)};
  }

  bool deeper(std::span<const float> path_log_p) override {
    double reach =
        0;  // the chance that the text gets this far, and so the most a further level can bring
    for (const float log_p : path_log_p) reach += std::exp(static_cast<double>(log_p));
    return std::min(reach, 1.0) > rate() * level_ms_;
  }

  void select(DraftTree& tree, const TreePlan&, const PlanContext& context) override {
    proposed_ = tree;
    context_ = context;
    if (tree.draft_nodes() == 0) return;
    if (!tree.drawn.empty()) return tree.truncate(context.rows_available);  // see DraftTree::drawn
    score(tree);
    tree.keep(best_nodes());
  }

  void learn(const RoundOutcome& outcome) override {
    const int draft_nodes = outcome.tree->draft_nodes();
    const double check = shared_.cost.check_ms(outcome.batch_rows);
    const double check_without =
        shared_.cost.check_ms(std::max(1, outcome.batch_rows - draft_nodes));
    const double token_ms = check_without / outcome.sequences;
    const double draft_ms = outcome.draft_ms / outcome.sequences;
    rate_tokens_ = kRateMemory * rate_tokens_ + outcome.batch_tokens;
    rate_ms_ = kRateMemory * rate_ms_ + check + outcome.draft_ms;

    const double extra_tokens = static_cast<double>(outcome.emitted.size()) - 1;
    const double gain = extra_tokens - (check - check_without + draft_ms) / token_ms;
    stake_ += kStakePerToken * static_cast<double>(outcome.emitted.size()) + gain;
    if (proposed_.draft_nodes() > 0) {
      learn_calibration(outcome.emitted);
      learn_draft_cost(draft_ms, gain, token_ms);
    }
  }

 private:
  /// Tokens per millisecond: what a millisecond spent on drafting must bring. At least those of
  /// plain decoding.
  double rate() const {
    const double plain = context_.sequences / shared_.cost.check_ms(context_.other_rows + 1);
    return rate_ms_ > 0 ? std::max(plain, rate_tokens_ / rate_ms_) : plain;
  }

  /// Fills chance_ with the calibrated path probability of each node, and ranked_ with the draft
  /// nodes by it.
  void score(const DraftTree& tree) {
    const auto size = static_cast<std::size_t>(tree.size());
    chance_.assign(size, 1.0);
    depth_.assign(size, 0);
    for (std::size_t node = 1; node < size; ++node) {
      const auto parent = static_cast<std::size_t>(tree.parent[node]);
      depth_[node] = depth_[parent] + 1;
      chance_[node] =
          chance_[parent] * calibration_.probability(depth_[node], predicted(tree, node));
    }
    ranked_.resize(size - 1);
    std::iota(ranked_.begin(), ranked_.end(), 1);
    std::sort(ranked_.begin(), ranked_.end(), [&](NodeId left, NodeId right) {
      const auto a = static_cast<std::size_t>(left), b = static_cast<std::size_t>(right);
      if (chance_[a] != chance_[b]) return chance_[a] > chance_[b];
      return depth_[a] != depth_[b] ? depth_[a] < depth_[b] : a < b;
    });
  }

  /// The first of ranked_ whose gain less cost is largest, in ascending order. The cost of rows may
  /// be neither convex nor concave, so all counts are tried.
  std::span<const NodeId> best_nodes() {
    const int base_rows = context_.other_rows + 1;
    const double base_ms = shared_.cost.check_ms(base_rows);
    const double token_ms = base_ms / context_.sequences;
    const double current_rate = rate();
    const std::size_t most =
        std::min(ranked_.size(), static_cast<std::size_t>(context_.rows_available));
    std::size_t best = 0;
    double best_gain = 0, tokens = 0;
    for (std::size_t count = 1; count <= most; ++count) {
      tokens += chance_[static_cast<std::size_t>(ranked_[count - 1])];
      const double extra_ms = shared_.cost.check_ms(base_rows + static_cast<int>(count)) - base_ms;
      if (extra_ms > stake_ * token_ms) break;
      const double gain = tokens - current_rate * extra_ms;
      if (gain > best_gain) {
        best_gain = gain;
        best = count;
      }
    }
    std::sort(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(best));
    return std::span(ranked_).first(best);
  }

  /// The drafter's chance that the node follows its parent.
  static double predicted(const DraftTree& tree, std::size_t node) {
    const auto parent = static_cast<std::size_t>(tree.parent[node]);
    return std::exp(static_cast<double>(tree.log_p[node]) -
                    static_cast<double>(tree.log_p[parent]));
  }

  /// Every proposed child of a node on the way the text took was a trial, bought or not.
  void learn_calibration(std::span<const TokenId> emitted) {
    NodeId on_path = 0;
    for (std::size_t level = 0; level < emitted.size() && on_path >= 0; ++level) {
      NodeId next = -1;
      for (std::size_t node = 1; node < proposed_.token.size(); ++node) {
        if (proposed_.parent[node] != on_path) continue;
        const bool right = proposed_.token[node] == emitted[level];
        const int depth = static_cast<int>(level) + 1;
        const double estimate = predicted(proposed_, node);
        calibration_.observe(depth, estimate, right);
        shared_.calibration.observe(depth, estimate, right);
        if (right) next = static_cast<NodeId>(node);
      }
      on_path = next;
    }
  }

  /// An expensive drafter that does not pay is asked again after pauses that double while it does
  /// not pay.
  void learn_draft_cost(double draft_ms, double gain, double token_ms) {
    int levels = 1;
    for (const int depth : depth_) levels = std::max(levels, depth);
    level_ms_ += 0.2 * (draft_ms / levels - level_ms_);
    value_ += 0.2 * (gain - value_);
    const bool pays = value_ > 0 && stake_ > 0;
    if (pays || draft_ms < kCheapDraft * token_ms) {
      pause_ = 0;
      return;
    }
    pause_ = std::clamp(2 * pause_, 4, kLongestPause);
    pause_left_ = pause_;
  }

  SharedEstimates& shared_;
  Calibration calibration_;
  DraftTree proposed_;  // as the drafter made it
  PlanContext context_;
  std::vector<double> chance_;  // per node of proposed_
  std::vector<int> depth_;
  std::vector<NodeId> ranked_;
  double stake_ = kStartStake;  // tokens' worth of time that drafting may still lose
  double rate_tokens_ = 0, rate_ms_ = 0;
  double level_ms_ = 0;  // of drafting one level
  double value_ = 0;     // running gain of a round with a draft, in tokens
  int pause_ = 0, pause_left_ = 0;
};

}  // namespace

std::unique_ptr<TreePolicy> make_throughput_policy(OptionText&, const PolicyContext& context) {
  expects(context.estimates != nullptr, "a throughput policy has estimates");
  return std::make_unique<ThroughputPolicy>(*context.estimates);
}

}  // namespace talon
