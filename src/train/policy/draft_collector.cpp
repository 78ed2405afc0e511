#include "train/policy/draft_collector.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "core/error.h"

namespace talon {
namespace {

// What the policy ada_eagle sees.
constexpr std::array<FeatureTap, 2> kTaps = {{{0}, {FeatureTap::kFinalNorm}}};
constexpr std::span<const FeatureTap> kOwnTaps = kTaps;
constexpr int kWholePool = 1 << 16;  // nodes: all that the drafter's own options allow

}  // namespace

/// Lets every level be drafted and notes the beams.
class DraftCollector::Recorder : public PolicyState {
 public:
  TreePlan plan(const PlanContext&) override { return {}; }
  int expand(std::span<const float> path_log_p) override {
    if (!path_log_p.empty()) states.push_back(radar_state(path_log_p));
    return static_cast<int>(path_log_p.size());
  }

  std::vector<BeamState> states;
};

/// A draft whose continuation is not known yet.
struct PendingDraft {
  std::size_t root;  // place in the text
  DraftTree tree;
  DraftExample example;
};

struct DraftCollector::Text {
  int index = 0;
  std::vector<TokenId> tokens;
  std::vector<float> feature;  // of the row that produced the last token
  std::deque<PendingDraft> pending;
  DraftTree round{0};  // the draft of the round under way
  NodeId at = -1;      // how far the text has followed it; -1: left it, the round is over

  void append(std::span<const TokenId> more) {
    for (const TokenId token : more) {
      tokens.push_back(token);
      if (at >= 0) at = round.child(at, token);
    }
  }
  std::span<const TokenId> after(std::size_t root) const {
    return std::span(tokens).subspan(root + 1);
  }
};

struct DraftCollector::State : DraftState {
  State(Text& of, std::unique_ptr<DraftState> of_drafter)
      : text(of), inner(std::move(of_drafter)) {}
  Text& text;
  std::unique_ptr<DraftState> inner;
};

DraftCollector::DraftCollector(std::unique_ptr<Drafter> drafter, Backend& backend,
                               CollectorOptions options)
    : drafter_(std::move(drafter)),
      backend_(backend),
      options_(std::move(options)),
      drafters_(taps_.add(drafter_->taps())),
      own_(taps_.add(options_.features ? kOwnTaps : std::span<const FeatureTap>())) {
  if (drafter_->traits().draws)
    throw UsageError(
        "--drafter: expected one that drafts the likeliest tokens, found one that draws");
}

DraftCollector::~DraftCollector() = default;

std::unique_ptr<DraftState> DraftCollector::start() {
  texts_.push_back(std::make_unique<Text>());
  texts_.back()->index = static_cast<int>(texts_.size()) - 1;
  return std::make_unique<State>(*texts_.back(), drafter_->start());
}

void DraftCollector::observe(DraftState& state, const CommittedTokens& committed) {
  auto& known = static_cast<State&>(state);
  Text& text = known.text;
  text.append(committed.tokens);
  CommittedTokens seen = committed;
  seen.features = taps_.columns(drafters_, committed.features);
  const View features = taps_.columns(own_, committed.features);
  if (features && features.rows > 0) {
    text.feature.resize(static_cast<std::size_t>(features.cols));
    backend_.download(features.row_range(features.rows - 1, 1), text.feature);
  }
  drafter_->observe(*known.inner, seen);
  const auto& ends = options_.end_tokens;
  settle(text, std::find(ends.begin(), ends.end(), text.tokens.back()) != ends.end());
}

/// Turns the pending drafts into examples whose text is known as far as they go.
void DraftCollector::settle(Text& text, bool is_over) {
  const auto levels = static_cast<std::size_t>(options_.levels);
  while (!text.pending.empty()) {
    PendingDraft& draft = text.pending.front();
    const auto following = text.after(draft.root);
    if (following.size() < levels && !is_over) return;
    draft.example.stops = stop_outcomes(
        draft.tree, following.first(std::min(following.size(), levels)), options_.most_nodes);
    examples_.push_back(std::move(draft.example));
    text.pending.pop_front();
  }
}

bool DraftCollector::wants_draft(const Text& text, const DraftJob& job) const {
  const bool is_whole = job.plan.levels >= options_.levels;
  const bool has_feature = !options_.features || !text.feature.empty();
  return is_whole && has_feature && (options_.every_position || text.at < 0);
}

void DraftCollector::propose(std::span<DraftJob> jobs) {
  std::vector<DraftJob> wanted;
  std::vector<Text*> texts;
  std::deque<Recorder> recorders;  // of addresses that stay
  std::deque<DraftTree> trees;
  for (const DraftJob& job : jobs) {
    auto& known = static_cast<State&>(*job.state);
    Text& text = known.text;
    if (!wants_draft(text, job)) continue;
    recorders.emplace_back();
    trees.emplace_back(text.tokens.back());
    DraftJob copy = job;
    copy.state = known.inner.get();
    copy.policy = &recorders.back();
    copy.plan = {kWholePool, options_.levels, options_.width};
    copy.tree = &trees.back();
    wanted.push_back(copy);
    texts.push_back(&text);
  }
  drafter_->propose(wanted);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Text& text = *texts[i];
    DraftExample example;
    example.text = text.index;
    if (wanted[i].sampler) example.temperature = wanted[i].sampler->temperature;
    if (options_.features) example.feature = text.feature;
    example.states = std::move(recorders[i].states);
    if (!options_.every_position) {
      text.round = trees[i];
      text.round.prune(options_.most_nodes);
      text.at = 0;
    }
    text.pending.push_back({text.tokens.size() - 1, std::move(trees[i]), std::move(example)});
  }
}

std::vector<DraftExample> DraftCollector::take_examples() { return std::exchange(examples_, {}); }

}  // namespace talon
