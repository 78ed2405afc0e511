#include "draft/lookup/jacobi_window.h"

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

/// The child with that token, a probe or not; -1: there is none.
NodeId child_of(const DraftTree& tree, NodeId parent, TokenId token) {
  for (const NodeId child : tree.children(parent)) {
    if (tree[child].token == token) return child;
  }
  return -1;
}

}  // namespace

int JacobiWindow::nodes() const {
  int count = 0;
  for (const auto& level : levels_) count += static_cast<int>(level.size());
  return count;
}

int JacobiWindow::depth() const {
  const int first = is_empty() ? 0 : static_cast<int>(levels_.front().size());
  return first + static_cast<int>(levels_.size()) - 1;
}

int JacobiWindow::most_nodes(int width, int ngram) {
  int most = 0;
  for (int levels = 1; levels < ngram; ++levels)
    most = std::max(most, levels * (width + ngram - 1 - levels) - 1);
  return most;
}

template <typename Visit>
std::vector<NodeId> JacobiWindow::walk(Visit&& visit) const {
  std::vector<NodeId> chain = {0};  // the root and level 0
  for (const TokenId token : levels_.front()) chain.push_back(visit(chain.back(), token));
  if (levels_.size() == 1) return {chain.begin() + 1, chain.end()};
  std::vector<NodeId> columns;
  for (std::size_t level = 1; level < levels_.size(); ++level) {
    const auto& tokens = levels_[level];
    expects(tokens.size() < chain.size() + 1, "columns have places of level 0 above them");
    const std::size_t skipped = chain.size() - tokens.size();
    for (std::size_t j = 0; j < tokens.size(); ++j) {
      if (level == 1) columns.push_back(chain[j + skipped]);
      columns[j] = visit(columns[j], tokens[j]);
    }
  }
  return columns;
}

void JacobiWindow::add_to(DraftTree& tree, float log_p, std::uint32_t source) const {
  walk([&](NodeId parent, TokenId token) { return tree.add_probe(parent, token, log_p, source); });
}

std::optional<std::vector<TokenId>> JacobiWindow::drawn_in(const DraftTree& tree,
                                                           const TokenAfter& drawn) const {
  const auto last = walk([&](NodeId parent, TokenId token) {
    return parent < 0 ? -1 : child_of(tree, parent, token);
  });
  if (std::find(last.begin(), last.end(), -1) != last.end()) return std::nullopt;
  std::vector<TokenId> tokens;
  for (const NodeId node : last) tokens.push_back(drawn(node));
  return tokens;
}

void JacobiWindow::advance(TokenId root, std::vector<TokenId> drawn, NgramPool& pool) {
  if (is_full()) {
    for (std::size_t column = 0; column < drawn.size(); ++column) {
      NgramPool::Entry following;
      for (std::size_t level = 1; level < levels_.size(); ++level) {
        following.push_back(levels_[level][column]);
      }
      following.push_back(drawn[column]);
      pool.add(column == 0 ? root : levels_[0][column - 1], std::move(following));
    }
    levels_.erase(levels_.begin());
    levels_.front().erase(levels_.front().begin());
    levels_.push_back(std::move(drawn));
    return;
  }
  if (levels_.size() > 1) drawn.erase(drawn.begin());
  for (auto& level : levels_) level.erase(level.begin());
  levels_.push_back(std::move(drawn));
}

}  // namespace talon
