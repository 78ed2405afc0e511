#include "draft/block/markov_output.h"

#include "core/error.h"

namespace talon {
namespace {

enum MarkovPass { kMarkovChildren, kMarkovConfidence };  // ReplayKey::variant

}  // namespace

MarkovOutput::MarkovOutput(const BlockWeights& weights, OutputHead& output)
    : weights_(weights),
      output_(output),
      backend_(*weights.backend),
      slot_(backend_, OutputHead::kMostRows),
      previous_(backend_, OutputHead::kMostRows),
      base_(backend_.allocate(OutputHead::kMostRows, weights.output->rows)),
      logits_(backend_.allocate(OutputHead::kMostRows, weights.output->rows)),
      bias_(backend_.allocate(OutputHead::kMostRows, weights.config.markov_rank)) {
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
                                   std::span<const TokenId> previous, int count,
                                   std::span<const DraftPlace> places) {
  const int rows = static_cast<int>(slot.size());
  expects(rows <= OutputHead::kMostRows, "rows of one product");
  const View logits = logits_.rows(rows), before = bias_.rows(rows);
  const Indices slots = slot_.put(slot), tokens = previous_.put(previous);
  backend_.replay({replay_owner_, rows, kMarkovChildren}, [&] {
    backend_.gather_rows(base_.view(), slots, logits);
    backend_.embed(*weights_.previous, tokens, before);
    const Projection bias[] = {{weights_.next.get(), logits, {}, /*accumulate=*/true}};
    backend_.linear({.input = before, .outputs = bias, .rough = true});
  });
  return output_.best(logits, count, places);
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
