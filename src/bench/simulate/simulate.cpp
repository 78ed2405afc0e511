#include "bench/simulate/simulate.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "core/error.h"
#include "draft/registry.h"
#include "tree/policy_registry.h"

namespace talon {
namespace {

std::size_t index_of(NodeId node) { return static_cast<std::size_t>(node); }

/// Adds to `to` the child of its node `parent` that is `node` in `from`, whose part from `root` on
/// `to` is.
NodeId copy_node(const DraftTree& from, NodeId node, DraftTree& to, NodeId parent,
                 NodeId root = 0) {
  const DraftTree::Node& copied = from[node];
  const float log_p = copied.log_p - from[root].log_p;
  return copied.kind == NodeKind::probe ? to.add_probe(parent, copied.token, log_p, copied.sources)
                                        : to.add(parent, copied.token, log_p, copied.sources);
}

/// The tree below `root` of `tree`, as its own.
DraftTree subtree(const DraftTree& tree, NodeId root) {
  DraftTree result(tree[root].token);
  std::vector<NodeId> copy(tree.nodes.size(), -1);
  copy[index_of(root)] = 0;
  for (NodeId node = root + 1; node < tree.size(); ++node) {
    const NodeId parent = copy[index_of(tree[node].parent)];
    if (parent < 0) continue;
    copy[index_of(node)] = copy_node(tree, node, result, parent, root);
  }
  return result;
}

/// Which drafters of a merged one run a network for each level.
std::uint32_t sources_with_passes(const std::string& drafter) {
  std::uint32_t bits = 0;
  const std::vector<std::string_view> parts = split_drafters(drafter);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string_view name = parts[i].substr(0, parts[i].find(':'));
    for (const DrafterEntry& entry : drafters()) {
      if (entry.name == name && entry.passes_by_level) bits |= 1u << i;
    }
  }
  return bits;
}

std::string drafter_name(const Trace& trace) {
  for (const char* key : {"method", "drafter"}) {
    const auto name = trace.about.find(key);
    if (name == trace.about.end() || !name->is_string()) continue;
    const std::string text = *name;
    return text.substr(0, text.find('@'));
  }
  return "";
}

/// What a drafter proposes when a policy is asked as the drafter would ask it.
struct Proposal {
  DraftTree tree{0};
  std::vector<int> pass_rows;  // of each pass of the draft head
};

Proposal propose(const DraftTree& recorded, const RecordedDrafter& drafter, PolicyState& policy,
                 const TreePlan& plan) {
  Proposal result;
  result.tree.reset(recorded[0].token);
  const std::uint32_t passing = drafter.passing_sources;
  std::vector<NodeId> copy(recorded.nodes.size(), -1);  // of recorded nodes in the result
  copy[0] = 0;
  for (NodeId node = 1; node < recorded.size(); ++node) {
    const NodeId parent = copy[index_of(recorded[node].parent)];
    const bool is_cheap = (recorded[node].sources & ~passing) != 0 || passing == 0;
    if (is_cheap && parent >= 0 && recorded.depth(node) <= plan.levels)
      copy[index_of(node)] = copy_node(recorded, node, result.tree, parent);
  }
  if (passing != 0 && policy.start(result.tree, /*waiting=*/0)) {
    std::vector<NodeId> beam = {0};
    const int levels = std::min(plan.levels, drafter.levels);
    for (int level = 1; level <= levels && !beam.empty(); ++level) {
      result.pass_rows.push_back(static_cast<int>(beam.size()));
      std::vector<NodeId> newest;
      for (NodeId node = 1; node < recorded.size(); ++node) {
        const NodeId parent = recorded[node].parent;
        if ((recorded[node].sources & passing) == 0) continue;
        if (std::find(beam.begin(), beam.end(), parent) == beam.end()) continue;
        NodeId& copied = copy[index_of(node)];
        if (copied < 0) copied = copy_node(recorded, node, result.tree, copy[index_of(parent)]);
        newest.push_back(node);
      }
      std::stable_sort(newest.begin(), newest.end(),
                       [&](NodeId a, NodeId b) { return recorded[a].log_p > recorded[b].log_p; });
      newest.resize(std::min(newest.size(), static_cast<std::size_t>(std::max(1, plan.width))));
      std::vector<float> scores;
      for (const NodeId node : newest) scores.push_back(recorded[node].log_p);
      if (level == levels || newest.empty()) break;
      const int all = static_cast<int>(newest.size());
      const int count = plan.ask_after.contains(level) ? policy.expand(scores) : all;
      newest.resize(std::min(newest.size(), static_cast<std::size_t>(std::max(0, count))));
      beam = std::move(newest);
    }
  }
  result.tree.prune(plan.nodes);
  return result;
}

/// One answer in play.
struct Player {
  const RecordedAnswer* answer = nullptr;
  std::unique_ptr<PolicyState> policy;
  int at = 0;         // index of the root in answer->tokens
  int head_seen = 0;  // up to which a draft head has run

  // Of the current round.
  TreePlan plan;
  PlanContext context;
  Proposal proposal;
  std::span<const std::int32_t> experts;  // recorded with the tree; empty without one of its own
  std::vector<NodeId> accepted;
  std::span<const TokenId> emitted;

  int position() const { return answer->first_position + at; }  // of the root
  int left() const { return answer->length() - 1 - at; }
  bool drafts() const { return plan.nodes > 0; }
  bool ran_passes() const { return !proposal.pass_rows.empty(); }
};

/// A machine that leaves its passes to the trace has those of the trace.
SimulationSettings with_passes_of(const RecordedDrafter& drafter, SimulationSettings settings) {
  if (settings.machine.pass_ms >= 0) return settings;
  settings.machine.pass_ms = drafter.pass_ms;
  settings.machine.first_pass_ms = drafter.first_pass_ms;
  return settings;
}

/// Fits what levels and the milliseconds of their drafts say: so much for each level, and for the
/// first one more. Rounds of one depth say nothing of the first.
void fit_passes(const std::vector<std::pair<double, double>>& drafts, RecordedDrafter& drafter) {
  double levels = 0, ms = 0;
  for (const auto& [depth, draft_ms] : drafts) {
    levels += depth;
    ms += draft_ms;
  }
  const auto count = static_cast<double>(drafts.size());
  double spread = 0, product = 0;
  for (const auto& [depth, draft_ms] : drafts) {
    spread += (depth - levels / count) * (depth - levels / count);
    product += (depth - levels / count) * (draft_ms - ms / count);
  }
  drafter.pass_ms = ms / levels;
  if (spread == 0) return;
  const double slope = std::clamp(product / spread, 0.0, drafter.pass_ms);
  drafter.first_pass_ms = (ms - slope * levels) / count;
  drafter.pass_ms = slope;
}

class Simulation {
 public:
  Simulation(const Trace& trace, const SimulationSettings& settings)
      : drafter_(recorded_drafter(trace)),
        settings_(with_passes_of(drafter_, settings)),
        answers_(recorded_answers(trace)),
        experts_(trace),
        policy_(make_policy(settings.policy)),
        costs_(most_rows(), settings_.machine.profile(experts_)),
        estimates_(most_rows(), settings_.machine.profile(experts_)) {
    if (answers_.empty()) fail("simulate: the trace has no answers");
    if (!policy_->taps().empty()) {
      throw UsageError(
          fmt::format("policy {}: it looks at the target's features, which a trace does not hold",
                      settings.policy));
    }
  }

  SimulationResult run() {
    const auto batch = static_cast<std::size_t>(settings_.machine.batch);
    const std::size_t plays = std::max(answers_.size(), 2 * batch);
    std::vector<Player> players;
    std::size_t next = 0;
    for (; next < batch; ++next) players.push_back(player(next));
    for (bool full = true; full;) {
      play_round(players);
      for (Player& each : players) {
        if (each.left() > 0) continue;
        full = full && next < plays;
        each = player(next++);
      }
    }
    const int plain_rows = settings_.machine.batch;
    const double plain_ms = check_ms(plain_rows, experts_.of(plain_rows)) + rest_ms();
    result_.plain_tok_s = plain_rows / plain_ms * 1000;
    return result_;
  }

 private:
  Player player(std::size_t play) {
    Player result;
    result.answer = &answers_[play % answers_.size()];
    result.policy = policy_->start(estimates_, costs_);
    return result;
  }
  int most_rows() const { return settings_.machine.batch * (1 + settings_.max_nodes); }
  double rest_ms() const { return settings_.machine.rest_ms; }
  double check_ms(int rows, double experts) const {
    return settings_.machine.check_ms(rows, experts - experts_.of(1));
  }

  void play_round(std::vector<Player>& players) {
    const auto sequences = static_cast<int>(players.size());
    double draft_ms = 0;
    std::vector<int> pass_rows;
    plan(players);
    for (Player& each : players) {
      draft(each);
      std::vector<int>& rows = each.proposal.pass_rows;
      // The first pass runs all that was committed since the last one.
      if (!rows.empty()) rows[0] = std::max(1, each.at - std::exchange(each.head_seen, each.at));
      pass_rows.resize(std::max(pass_rows.size(), rows.size()));
      for (std::size_t pass = 0; pass < rows.size(); ++pass) pass_rows[pass] += rows[pass];
      if (each.plan.nodes > 0) draft_ms += drafter_.draft_ms;
    }
    if (!pass_rows.empty()) draft_ms += settings_.machine.first_pass_ms;
    for (const int rows : pass_rows)
      draft_ms += settings_.machine.pass_ms + settings_.machine.pass_row_ms * (rows - 1);

    int drafted_rows = 0;
    row_budget_.begin_round();
    for (Player& each : players) each.policy->offer(each.proposal.tree, each.context, row_budget_);
    for (Player& each : players) {
      each.context.drafted_rows = drafted_rows;
      each.policy->select(each.proposal.tree, each.plan, each.context, row_budget_);
      drafted_rows += each.proposal.tree.draft_nodes();
    }
    int emitted = 0;
    for (Player& each : players) emitted += accept(each);
    const int rows = sequences + drafted_rows;
    first_uses_ = experts_.first_uses(
        rows, sequences == 1 ? players.front().experts : std::span<const std::int32_t>());
    const double experts = std::accumulate(first_uses_.begin(), first_uses_.end(), 0.0);
    RoundOutcome outcome;
    outcome.draft_ms = draft_ms;
    outcome.check_ms = check_ms(rows, experts);
    outcome.sequences = sequences;
    outcome.draft_rows = drafted_rows;
    outcome.batch_tokens = emitted;
    learn(players, outcome);
    result_.draft_ms += draft_ms;
    result_.check_ms += outcome.check_ms;
    result_.experts += experts;
    result_.rest_ms += rest_ms();
  }

  void plan(std::vector<Player>& players) {
    const auto sequences = static_cast<int>(players.size());
    long positions = 0;
    for (const Player& each : players) positions += each.position();
    for (Player& each : players) {
      each.context = {};
      each.context.position = each.position();
      each.context.rows_available = settings_.max_nodes;
      each.context.levels_available = each.left() - 1;
      each.context.sequences = sequences;
      each.context.mean_position = static_cast<int>(positions / sequences);
      each.context.other_rows = sequences - 1;
      each.context.answer_position = each.at;
      each.plan = each.policy->plan(each.context);
    }
  }

  void draft(Player& each) {
    bool borrowed = false;
    const DraftTree recorded = each.answer->tree_at(each.position(), borrowed);
    result_.borrowed += borrowed;
    each.experts = {};
    if (!borrowed) each.experts = each.answer->rounds.at(each.position())->experts;
    each.proposal = {};
    each.proposal.tree.reset(recorded[0].token);
    if (each.plan.nodes > 0) each.proposal = propose(recorded, drafter_, *each.policy, each.plan);
  }

  /// Follows the recorded text through the tree; returns the tokens emitted.
  int accept(Player& each) {
    const DraftTree& tree = each.proposal.tree;
    each.accepted = {0};
    int depth = 0;
    while (depth + 1 < each.left()) {
      const NodeId child =
          tree.child(each.accepted.back(), each.answer->tokens[index_of(each.at + depth + 1)]);
      if (child < 0) break;
      each.accepted.push_back(child);
      ++depth;
    }
    each.emitted =
        std::span(each.answer->tokens).subspan(index_of(each.at + 1), index_of(depth + 1));
    each.at += depth + 1;
    ++result_.rounds;
    result_.tokens += depth + 1;
    result_.drafted += tree.draft_nodes();
    return depth + 1;
  }

  void learn(std::vector<Player>& players, RoundOutcome outcome) {
    costs_.observe_check(outcome.sequences + outcome.draft_rows,
                         players.front().context.mean_position, outcome.check_ms, /*texts=*/1,
                         first_uses_);
    const auto ran = std::ranges::count_if(players, &Player::ran_passes);
    const auto drafted = std::ranges::count_if(players, &Player::drafts);
    for (Player& each : players) {
      const bool takes_part = ran > 0 ? each.ran_passes() : each.drafts();
      outcome.own_draft_ms = takes_part ? outcome.draft_ms : 0;
      outcome.sharers = takes_part ? static_cast<int>(ran > 0 ? ran : drafted) : 0;
      outcome.tree = &each.proposal.tree;
      outcome.accepted = each.accepted;
      outcome.emitted = each.emitted;
      if (each.left() > 0) each.policy->learn(outcome);
    }
    costs_.observe_rest(rest_ms());
  }

  RecordedDrafter drafter_;
  SimulationSettings settings_;
  std::vector<RecordedAnswer> answers_;
  RecordedExperts experts_;
  std::vector<std::int32_t> first_uses_;  // of the rows of a check
  std::unique_ptr<const TreePolicy> policy_;
  MachineCosts costs_;
  DrafterEstimates estimates_;
  RowBudget row_budget_;
  SimulationResult result_;
};

}  // namespace

DraftTree RecordedAnswer::tree_at(int position, bool& borrowed) const {
  const auto after = rounds.upper_bound(position);
  expects(after != rounds.begin(), "a position of the answer");
  const TraceRound& round = *std::prev(after)->second;
  const auto depth = static_cast<std::size_t>(position - round.position);
  borrowed = depth > 0;
  if (depth < round.accepted.size()) return subtree(round.tree, round.accepted[depth]);
  return DraftTree(tokens[index_of(position - first_position)]);
}

std::vector<RecordedAnswer> recorded_answers(const Trace& trace) {
  std::map<SequenceId, std::size_t> index;
  std::vector<RecordedAnswer> answers;
  for (const TraceRound& round : trace.rounds) {
    const auto [entry, is_new] = index.try_emplace(round.sequence, answers.size());
    if (is_new) {
      answers.emplace_back();
      answers.back().first_position = round.position;
      answers.back().tokens = {round.tree[0].token};
    }
    RecordedAnswer& answer = answers[entry->second];
    const bool follows = round.position == answer.first_position + answer.length() - 1;
    if (!follows || round.emitted.empty()) {
      fail("simulate: round {} of sequence {} begins at position {}, expected {}", round.round,
           round.sequence, round.position, answer.first_position + answer.length() - 1);
    }
    answer.rounds[round.position] = &round;
    answer.tokens.insert(answer.tokens.end(), round.emitted.begin(), round.emitted.end());
  }
  return answers;
}

RecordedDrafter recorded_drafter(const Trace& trace) {
  RecordedDrafter drafter;
  drafter.passing_sources = sources_with_passes(drafter_name(trace));
  double ms = 0;
  std::vector<std::pair<double, double>> drafts;  // levels and milliseconds
  for (const TraceRound& round : trace.rounds) {
    const int levels = round.tree.levels();
    drafter.levels = std::max(drafter.levels, levels);
    ms += round.draft_ms;
    if (levels > 0) drafts.emplace_back(levels, round.draft_ms);
  }
  if (drafter.passing_sources != 0 && !drafts.empty()) {
    fit_passes(drafts, drafter);
  } else if (!trace.rounds.empty()) {
    drafter.draft_ms = ms / static_cast<double>(trace.rounds.size());
  }
  return drafter;
}

SimulationResult simulate(const Trace& trace, const SimulationSettings& settings) {
  return Simulation(trace, settings).run();
}

}  // namespace talon
