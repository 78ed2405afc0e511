#include "bench/cost.h"

#include <algorithm>

#include "core/error.h"
#include "engine/stopwatch.h"

namespace talon {
namespace {

std::vector<TokenId> arbitrary_tokens(int count, int vocabulary) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    tokens[static_cast<std::size_t>(i)] = (i * 7919 + 13) % vocabulary;
  return tokens;
}

/// Runs `tokens` as a chain after the committed text. Its rows stay in flight.
void forward_rows(Target& target, KvSequence& sequence, std::span<const TokenId> tokens,
                  SequenceRows::Logits logits) {
  if (!sequence.reserve(static_cast<int>(tokens.size()))) {
    fail(
        "bench cost: the cache has no room for {} rows after {} positions: give a larger "
        "--cache-mb",
        tokens.size(), sequence.length());
  }
  const SequenceRows rows{&sequence, tokens, {}, logits};
  target.forward({&rows, 1});
  target.model().backend->synchronize();
}

void fill_context(Target& target, KvSequence& sequence, int context) {
  const std::vector<TokenId> tokens = arbitrary_tokens(context, target.model().config.vocabulary);
  std::vector<NodeId> path;
  for (int first = 0; first < context; first += target.max_rows()) {
    const int count = std::min(target.max_rows(), context - first);
    const auto chunk =
        std::span(tokens).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    forward_rows(target, sequence, chunk, SequenceRows::Logits::none);
    path.resize(chunk.size());
    for (int i = 0; i < count; ++i) path[static_cast<std::size_t>(i)] = i;
    sequence.keep(path, chunk);
  }
}

double macs_of(const Weight& weight) { return static_cast<double>(weight.rows) * weight.cols; }

}  // namespace

ForwardWork forward_work(const Model& model, const KvShape& cache, int rows, int context) {
  double macs = macs_of(model.output_weight());
  for (const LayerWeights& layer : model.layers) {
    for (const auto* weight :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      macs += macs_of(**weight);
    }
  }
  KvShape one_page = cache;
  one_page.pages = 1;
  const double position_bytes = static_cast<double>(kv_page_bytes(one_page)) / kPageRows;
  return {static_cast<double>(model.weight_bytes) + position_bytes * context, macs * rows};
}

std::vector<ForwardCost> measure_forward_cost(Target& target, const CostSettings& settings,
                                              const std::function<void()>& between) {
  const std::vector<TokenId> tokens =
      arbitrary_tokens(settings.rows.back(), target.model().config.vocabulary);
  KvSequence sequence = target.cache().start({}, false);
  fill_context(target, sequence, settings.context);
  std::vector<std::vector<double>> ms(settings.rows.size());
  for (int repeat = -1; repeat < settings.repeats; ++repeat) {  // the first warms up
    if (between && repeat >= 0) between();
    for (std::size_t i = 0; i < settings.rows.size(); ++i) {
      const Stopwatch watch;
      forward_rows(target, sequence,
                   std::span(tokens).first(static_cast<std::size_t>(settings.rows[i])),
                   SequenceRows::Logits::all);
      if (repeat >= 0) ms[i].push_back(watch.ms());
      sequence.keep({}, {});
    }
  }
  std::vector<ForwardCost> costs;
  for (std::size_t i = 0; i < ms.size(); ++i) costs.push_back({settings.rows[i], spread_of(ms[i])});
  return costs;
}

}  // namespace talon
