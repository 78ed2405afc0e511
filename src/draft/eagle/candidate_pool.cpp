#include "draft/eagle/candidate_pool.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace talon {

void CandidatePool::add(int parent, TokenId token, float log_p) {
  expects(parent >= -1 && parent < size(), "a parent in the pool");
  if (!std::isfinite(log_p)) return;
  const float parent_score = parent < 0 ? 0.0F : score(parent);
  token_.push_back(token);
  parent_.push_back(parent);
  score_.push_back(std::min(parent_score, parent_score + log_p));
}

std::vector<int> CandidatePool::best(int first, int count) const {
  std::vector<int> ranked(static_cast<std::size_t>(size() - first));
  std::iota(ranked.begin(), ranked.end(), first);
  const auto kept = std::min<std::ptrdiff_t>(count, std::ssize(ranked));
  std::partial_sort(ranked.begin(), ranked.begin() + kept, ranked.end(),
                    [this](int a, int b) { return better(a, b); });
  ranked.resize(static_cast<std::size_t>(kept));
  return ranked;
}

std::vector<int> CandidatePool::beam(int width) const { return best(newest_level_, width); }

void CandidatePool::drop_hopeless(std::vector<int>& beam, int nodes) const {
  if (size() <= nodes) return;
  const int last_kept = best(0, nodes).back();
  std::erase_if(beam, [&](int candidate) { return better(last_kept, candidate); });
}

void CandidatePool::rerank(int nodes, DraftTree& tree) const {
  std::vector<int> kept = best(0, nodes);
  std::sort(kept.begin(), kept.end());
  std::vector<NodeId> node_of(token_.size(), -1);
  for (const int candidate : kept) {
    const auto i = static_cast<std::size_t>(candidate);
    const NodeId parent = parent_[i] < 0 ? 0 : node_of[static_cast<std::size_t>(parent_[i])];
    expects(parent >= 0, "a kept candidate has a kept parent");
    node_of[i] = tree.add(parent, token_[i], score_[i]);
  }
}

}  // namespace talon
