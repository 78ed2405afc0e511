#include "draft/growth/candidate_pool.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace talon {

void CandidatePool::add(int parent, TokenId token, float log_p) {
  expects(parent >= -1 && parent < size(), "a parent in the pool");
  if (!std::isfinite(log_p)) return;
  const float step = std::min(log_p, 0.0F);
  candidates_.push_back({token, parent, step, score_above(parent) + step, -1, /*ours=*/true});
}

void CandidatePool::adopt(int parent, TokenId token, NodeId node, float path_log_p) {
  const float score = std::min(score_above(parent), path_log_p);
  const auto known =
      std::find_if(candidates_.begin() + newest_level_, candidates_.end(),
                   [&](const Candidate& c) { return c.parent == parent && c.token == token; });
  if (known == candidates_.end()) {
    candidates_.push_back({token, parent, 0.0F, score, node, /*ours=*/false});
    return;
  }
  known->node = node;
  known->score = std::max(known->score, score);
}

std::vector<int> CandidatePool::beam(int width) const {
  std::vector<int> ranked;
  for (int candidate = newest_level_; candidate < size(); ++candidate) ranked.push_back(candidate);
  const auto kept = std::min<std::ptrdiff_t>(width, std::ssize(ranked));
  std::partial_sort(ranked.begin(), ranked.begin() + kept, ranked.end(),
                    [this](int a, int b) { return better(a, b); });
  ranked.resize(static_cast<std::size_t>(kept));
  return ranked;
}

/// The best candidates that the tree does not have yet, best first.
std::vector<int> CandidatePool::best_new(int count) const {
  std::vector<int> ranked;
  for (int candidate = 0; candidate < size(); ++candidate) {
    if (node(candidate) < 0) ranked.push_back(candidate);
  }
  const auto kept = std::min<std::ptrdiff_t>(count, std::ssize(ranked));
  std::partial_sort(ranked.begin(), ranked.begin() + kept, ranked.end(),
                    [this](int a, int b) { return better(a, b); });
  ranked.resize(static_cast<std::size_t>(kept));
  return ranked;
}

void CandidatePool::drop_hopeless(std::vector<int>& beam, int nodes) const {
  const std::vector<int> kept = best_new(nodes);
  if (static_cast<int>(kept.size()) < nodes) return;
  if (kept.empty()) {
    beam.clear();
    return;
  }
  std::erase_if(beam, [&](int candidate) { return better(kept.back(), candidate); });
}

void CandidatePool::rerank(int nodes, DraftTree& tree, std::uint32_t source) const {
  std::vector<bool> is_kept(candidates_.size());
  for (const int candidate : best_new(nodes)) is_kept[static_cast<std::size_t>(candidate)] = true;
  const std::vector<float> log_p_before = tree.log_ps();
  std::vector<NodeId> node_of(candidates_.size(), -1);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& candidate = candidates_[i];
    node_of[i] = candidate.node;
    if (!candidate.ours || (candidate.node < 0 && !is_kept[i])) continue;
    const NodeId parent =
        candidate.parent < 0 ? 0 : node_of[static_cast<std::size_t>(candidate.parent)];
    expects(parent >= 0, "a kept candidate has a kept parent");
    // Below another drafter's node the score counts from what that node has in the tree, so that
    // our step stays ours.
    const auto above = static_cast<std::size_t>(parent);
    const float log_p_above =
        above < log_p_before.size() ? log_p_before[above] : tree[parent].log_p;
    node_of[i] = tree.add(parent, candidate.token, log_p_above + candidate.step, source);
  }
}

}  // namespace talon
