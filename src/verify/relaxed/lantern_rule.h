#pragma once

#include <algorithm>
#include <set>

#include "verify/proposal.h"
#include "verify/relaxed/neighbour_table.h"
#include "verify/verifier.h"

namespace talon {

/// What a rejected candidate takes from the law of the next one, beside itself.
enum class Removal {
  relaxed,  // what it was relaxed by
  draft,   // as LANTERN's code for LlamaGen: one neighbour more than the most, from the draft's law
  target,  // as its code for Lumina-mGPT: as many from the target's law
};

/// How much distortion an answer may have before nothing is relaxed any more.
struct LanternBudget {
  double each = 0;                    // of a token, on the average; 0: any
  double distortion = 0, tokens = 0;  // of the answer before the check

  /// Behind the path of the check so far.
  bool is_spent(const VerifyResult& result) const {
    const double accepted = static_cast<double>(result.path.size()) - 1;
    return each > 0 && distortion + result.distortion >= each * (tokens + accepted);
  }
};

struct LanternSettings {
  const NeighbourTable* table = nullptr;  // null: nothing is relaxed
  int neighbours = 0;                     // at most
  double bound = 0;
  bool multiplicative = false;  // the bound is on p~ / p - 1, else on p~ - p
  Removal removal = Removal::relaxed;
  LanternBudget budget = {};
};

/// A candidate's probability with that of its nearest neighbours, as many as the bound allows.
struct Relaxed {
  double p;    // of the token and the neighbours
  int joined;  // neighbours
};

template <typename Weight>
Relaxed relax(TokenId token, double p, const LanternSettings& settings, const Weight& weight) {
  if (!settings.table) return {p, 0};
  const double bound = settings.multiplicative ? settings.bound * p : settings.bound;
  Relaxed relaxed{p, 0};
  double sum = 0;
  const NearestCodes others = settings.table->of(token);
  const std::size_t most = std::min(others.size(), static_cast<std::size_t>(settings.neighbours));
  for (std::size_t i = 0; i < most; ++i) {
    sum += weight(others[i]);
    if (sum > bound) break;
    relaxed = {p + sum, relaxed.joined + 1};
  }
  return relaxed;
}

/// LANTERN (arXiv:2410.03355) and LANTERN++ (arXiv:2502.06352): speculative sampling in which a
/// candidate is accepted with the probability that its look-alikes have together. Adds to
/// `distortion` by how much each candidate's chance exceeds the exact one, given that it is
/// reached, and to `relaxed` what of the accepted one's chance does.
template <RuledTree Tree, RuleDecisions<double> Decisions>
class LanternWalk {
 public:
  LanternWalk(Tree& tree, Decisions& decisions, const LanternSettings& settings)
      : tree_(tree), decisions_(decisions), table_(settings.table), settings_(settings) {}

  VerifyResult run() {
    VerifyResult result{{0}, 0};
    while (true) {
      const NodeId node = result.path.back();
      settings_.table = settings_.budget.is_spent(result) ? nullptr : table_;
      Law<double> p = tree_.target(node);
      const NodeId child = accepted_child(node, p, result);
      if (child < 0) {
        end_path(tree_, decisions_, p, result);
        return result;
      }
      result.path.push_back(child);
    }
  }

 private:
  NodeId accepted_child(NodeId node, Law<double>& p, VerifyResult& result) {
    const bool drawn = tree_.drawn_from(node) != nullptr;
    Proposal<double> proposal(tree_.drawn_from(node));
    for (const NodeId child : tree_.children(node)) {
      const TokenId token = tree_.token(child);
      const Law<double>& q = proposal.of_next(token);
      const double p_token = p.of(token), q_token = q.of(token);
      const Relaxed relaxed = relaxed_in(p, node, token);
      const double chance = acceptance(1.0, relaxed.p, q_token);
      const double exact = acceptance(1.0, p_token, q_token);
      result.distortion += chance - exact;
      if (decisions_.accept(child, chance)) {
        if (chance > exact) result.relaxed += 1 - exact / chance;
        return child;
      }
      if (drawn) {
        reject_drawn(token, relaxed.joined, p, q);
      } else {
        reject_fixed(token, relaxed.joined, p);
      }
      proposal.reject(token);
    }
    return -1;
  }

  /// What the request forbids stands for no others. It might where they are added, not where they
  /// are a factor of nothing.
  Relaxed relaxed_in(const Law<double>& p, NodeId node, TokenId token) const {
    constexpr double kUnlikely = 1e-6;  // all that is forbidden
    const double p_token = p.of(token);
    const bool adds = settings_.table && !settings_.multiplicative;
    if (adds && p_token < kUnlikely && tree_.forbids(node, token)) return {p_token, 0};
    return relax(token, p_token, settings_, [&](TokenId other) { return p.of(other); });
  }

  /// Neighbours that a rejected candidate takes along.
  std::set<TokenId> taken(TokenId token, int joined) const {
    if (joined == 0) return {};
    const NearestCodes all = settings_.table->of(token);
    const auto most = static_cast<std::size_t>(
        settings_.removal == Removal::relaxed ? joined : settings_.neighbours + 1);
    std::set<TokenId> tokens;
    for (std::size_t i = 0; i < std::min(most, all.size()); ++i) tokens.insert(all[i]);
    return tokens;
  }

  static Law<double> without(const Law<double>& law, const std::set<TokenId>& tokens) {
    Law<double> left;
    for (const auto& entry : law.entries) {
      if (!tokens.contains(entry.token)) left.entries.push_back(entry);
    }
    return left;
  }

  void reject_fixed(TokenId token, int joined, Law<double>& p) const {
    std::set<TokenId> gone = taken(token, joined);
    gone.insert(token);
    Law<double> left = without(p, gone);
    const double total = left.total();
    if (!(total > 0)) return;
    left.divide_by(total);
    p = std::move(left);
  }

  void reject_drawn(TokenId token, int joined, Law<double>& p, const Law<double>& q) const {
    switch (settings_.removal) {
      case Removal::relaxed:
        replace_by_excess(1.0, p, q);
        return;
      case Removal::draft:
        replace_by_excess(1.0, p, without(q, taken(token, joined)));
        return;
      case Removal::target:
        if (Law<double> left = without(p, taken(token, joined)); left.total() > 0)
          p = std::move(left);
        replace_by_excess(1.0, p, q);
        return;
    }
  }

  Tree& tree_;
  Decisions& decisions_;
  const NeighbourTable* table_;
  LanternSettings settings_;  // whose table is that of the node that is looked at
};

}  // namespace talon
