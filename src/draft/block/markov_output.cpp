#include "draft/block/markov_output.h"

#include "core/error.h"

namespace talon {
namespace {

enum MarkovPass { kMarkovChildren, kMarkovConfidence };  // ReplayKey::variant

/// All values of a dense matrix, one below the other.
View in_one_column(const View& matrix) {
  expects(matrix.stride == matrix.cols, "a dense matrix");
  return {matrix.data, matrix.rows * matrix.cols, 1, 1};
}

}  // namespace

MarkovOutput::MarkovOutput(const BlockWeights& weights, OutputHead& output)
    : weights_(weights),
      output_(output),
      backend_(*weights.backend),
      kind_(weights.config.markov_kind),
      rank_(weights.config.markov_rank),
      slot_(backend_, OutputHead::kMostRows),
      previous_(backend_, OutputHead::kMostRows),
      above_(backend_, OutputHead::kMostRows),
      base_(backend_.allocate(OutputHead::kMostRows, weights.output->rows)),
      logits_(backend_.allocate(OutputHead::kMostRows, weights.output->rows)),
      bias_(backend_.allocate(OutputHead::kMostRows,
                              kind_ == MarkovKind::gated ? 2 * rank_ : rank_)) {
  if (weights.joint) joined_ = backend_.allocate(OutputHead::kMostRows, weights.joint->cols);
  if (kind_ == MarkovKind::rnn) {
    mixed_ = backend_.allocate(OutputHead::kMostRows, 3 * rank_);
    gates_ = backend_.allocate(OutputHead::kMostRows, rank_);
    states_ = backend_.allocate(1 + OutputHead::kMostRows, rank_);
  }
  if (!weights.confidence) return;
  read_ = backend_.allocate(OutputHead::kMostRows, weights.confidence->cols);
  sure_ = backend_.allocate(OutputHead::kMostRows, 1);
}

void MarkovOutput::set_places(const View& slots) {
  expects(slots.rows <= OutputHead::kMostRows, "rows of one product");
  slots_ = slots;
  output_.product(slots, {}, base_.rows(slots.rows));
}

RowChildren MarkovOutput::children(std::span<const std::int32_t> slot,
                                   std::span<const TokenId> previous,
                                   std::span<const std::int32_t> above, int count,
                                   std::span<const DraftPlace> places) {
  const int rows = static_cast<int>(slot.size());
  expects(rows <= OutputHead::kMostRows, "rows of one product");
  const View logits = logits_.rows(rows);
  const Indices slots = slot_.put(slot), tokens = previous_.put(previous);
  const Indices states = place_states(above);
  if (joined_) backend_.gather_rows(slots_, slots, place_vectors(rows));
  backend_.replay({replay_owner_, rows, kMarkovChildren}, [&] {
    backend_.gather_rows(base_.view(), slots, logits);
    switch (kind_) {
      case MarkovKind::vanilla:
        return add_vanilla(tokens, logits);
      case MarkovKind::gated:
        return add_gated(tokens, logits);
      case MarkovKind::rnn:
        return add_recurrent(tokens, states, logits);
    }
  });
  return output_.best(logits, count, places);
}

/// Rows of states_; none where nothing has a state.
Indices MarkovOutput::place_states(std::span<const std::int32_t> above) {
  if (kind_ != MarkovKind::rnn) return {};
  std::vector<std::int32_t> states;
  for (const std::int32_t row : above) states.push_back(row == kNoRow ? 0 : row + 1);
  return above_.put(states);
}

/// Where those of the places lie in joined_.
View MarkovOutput::place_vectors(int rows) const {
  const int first = kind_ == MarkovKind::rnn ? 2 * rank_ : 0;
  return joined_.rows(rows).col_range(first, weights_.config.hidden);
}

void MarkovOutput::add_vanilla(const Indices& tokens, const View& logits) {
  const View before = bias_.rows(logits.rows);
  backend_.embed(*weights_.previous, tokens, before);
  add_product(before, InputTransform::none, logits);
}

void MarkovOutput::add_gated(const Indices& tokens, const View& logits) {
  const View joined = joined_.rows(logits.rows), bias = bias_.rows(logits.rows);
  const View before = joined.col_range(weights_.config.hidden, rank_);
  backend_.embed(*weights_.previous, tokens, before);
  backend_.copy(before, bias.col_range(rank_, rank_));
  const Projection gate[] = {
      {weights_.joint.get(), bias.col_range(0, rank_), weights_.joint_bias.view()}};
  backend_.linear({.input = joined, .outputs = gate, .rough = true});
  add_product(bias, InputTransform::sigmoid_gate, logits);
}

void MarkovOutput::add_recurrent(const Indices& tokens, const Indices& states, const View& logits) {
  const int rows = logits.rows;
  const View joined = joined_.rows(rows), mixed = mixed_.rows(rows);
  const View above = joined.col_range(0, rank_);
  backend_.gather_rows(states_.view(), states, above);
  backend_.embed(*weights_.previous, tokens, joined.col_range(rank_, rank_));
  const Projection parts[] = {{weights_.joint.get(), mixed, weights_.joint_bias.view()}};
  backend_.linear({.input = joined, .outputs = parts, .rough = true});
  const View gates = gates_.rows(rows), kept = bias_.rows(rows);
  backend_.copy(mixed.col_range(0, rank_), gates);
  backend_.activate(gates, Activation::sigmoid);
  backend_.soft_cap(mixed.col_range(rank_, 2 * rank_), 1);  // the hyperbolic tangent
  const View candidate = mixed.col_range(rank_, rank_);
  // As candidate + gate * (state above - candidate), where products by element are those by row.
  backend_.add_scaled(above, candidate, -1, kept);
  backend_.scale_rows(in_one_column(kept), in_one_column(gates));
  backend_.add(candidate, kept, states_.view().row_range(1, rows));
  add_product(mixed.col_range(2 * rank_, rank_), InputTransform::none, logits);
}

void MarkovOutput::add_product(const View& input, InputTransform transform, const View& logits) {
  const Projection bias[] = {{weights_.next.get(), logits, {}, /*accumulate=*/true}};
  backend_.linear({.input = input, .transform = transform, .outputs = bias, .rough = true});
}

std::vector<float> MarkovOutput::confidence(std::span<const std::int32_t> slot,
                                            std::span<const TokenId> previous) {
  const int rows = static_cast<int>(slot.size());
  const int hidden = weights_.config.hidden;
  const View read = read_.rows(rows), sure = sure_.rows(rows);
  backend_.gather_rows(slots_, slot_.put(slot), read.col_range(0, hidden));
  const Indices tokens = previous_.put(previous);
  backend_.replay({replay_owner_, rows, kMarkovConfidence}, [&] {
    if (weights_.config.confidence_reads_markov) {
      backend_.embed(*weights_.previous, tokens,
                     read.col_range(hidden, weights_.config.markov_rank));
    }
    const Projection projection[] = {
        {weights_.confidence.get(), sure, weights_.confidence_bias.view()}};
    backend_.linear({.input = read, .outputs = projection});
    backend_.activate(sure, Activation::sigmoid);
  });
  std::vector<float> chances(slot.size());
  backend_.download(sure, chances);
  return chances;
}

}  // namespace talon
