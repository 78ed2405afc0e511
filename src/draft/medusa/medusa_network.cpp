#include "draft/medusa/medusa_network.h"

#include <algorithm>

#include "core/error.h"

namespace talon {
namespace {

/// The rows of one head out of those of all heads, each with `rows`.
RowChildren part_of(const RowChildren& all, std::size_t head, int rows) {
  const auto size = static_cast<std::ptrdiff_t>(rows) * all.count;
  const auto first = static_cast<std::ptrdiff_t>(head) * size;
  return {all.count,
          {all.token.begin() + first, all.token.begin() + first + size},
          {all.log_p.begin() + first, all.log_p.begin() + first + size}};
}

}  // namespace

MedusaNetwork::MedusaNetwork(const MedusaWeights& weights, const Coupling& coupling, int heads)
    : weights_(weights),
      backend_(*weights.backend),
      heads_(std::min(static_cast<std::size_t>(heads), weights.heads.size())) {
  const int hidden = weights.config.hidden;
  const std::size_t matrices = weights.config.own_outputs ? heads_ : 1;
  for (std::size_t head = 0; head < matrices; ++head) {
    outputs_.emplace_back(backend_, weights.output_of(head), weights.target_token, coupling,
                          weights.logit_form);
  }
  features_ = backend_.allocate(kMostRows, hidden);
  hidden_ = backend_.allocate(static_cast<int>(heads_) * kMostRows, hidden);
  inner_ = backend_.allocate(kMostRows, hidden);
}

std::vector<RowChildren> MedusaNetwork::guess(const View& features, int count,
                                              std::span<const DraftPlace> first_places) {
  expects(features.rows >= 1 && features.rows <= kMostRows, "at most kMostRows rows");
  const int rows = features.rows;
  const View own = features_.rows(rows);
  backend_.copy(features, own);
  backend_.replay({replay_owner_, rows}, [&] {
    for (std::size_t head = 0; head < heads_; ++head)
      run_blocks(own, weights_.heads[head], hidden_of(head, rows));
  });
  std::vector<RowChildren> guesses;
  std::vector<DraftPlace> places(first_places.begin(), first_places.end()), all_places;
  for (std::size_t head = 0; head < heads_; ++head) {
    if (outputs_.size() > 1)
      guesses.push_back(outputs_[head].top_children(hidden_of(head, rows), count, places));
    all_places.insert(all_places.end(), places.begin(), places.end());
    for (DraftPlace& place : places) place = place.after(1);
  }
  if (outputs_.size() > 1) return guesses;
  // The matrix that all heads share is read once.
  const View hidden = hidden_.rows(static_cast<int>(heads_) * rows);
  const RowChildren all = outputs_.front().top_children(hidden, count, all_places);
  for (std::size_t head = 0; head < heads_; ++head) {
    guesses.push_back(part_of(all, head, rows));
  }
  return guesses;
}

/// Those of all heads lie together.
View MedusaNetwork::hidden_of(std::size_t head, int rows) const {
  return hidden_.view().row_range(static_cast<int>(head) * rows, rows);
}

/// out = x + silu(W x + b), block after block.
void MedusaNetwork::run_blocks(const View& features, const MedusaWeights::Head& head,
                               const View& out) {
  const View inner = inner_.rows(out.rows);
  backend_.copy(features, out);
  for (const MedusaWeights::Block& block : head.blocks) {
    const Projection projection[] = {{block.weight.get(), inner, block.bias.view()}};
    backend_.linear({.input = out, .outputs = projection, .rough = true});
    backend_.activate(inner, Activation::silu);
    backend_.add(out, inner, out);
  }
}

}  // namespace talon
