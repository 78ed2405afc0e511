#include "bench/machine/cost.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/stopwatch.h"

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

/// Commits arbitrary tokens up to `context` positions.
void extend_to(Target& target, KvSequence& sequence, int context) {
  const std::vector<TokenId> tokens = arbitrary_tokens(context, target.model().config.vocabulary);
  std::vector<NodeId> path;
  while (sequence.length() < context) {
    const int first = sequence.length();
    const int count = std::min({target.max_rows(), target.cache().rows_at_once(), context - first});
    const auto chunk =
        std::span(tokens).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    forward_rows(target, sequence, chunk, SequenceRows::Logits::none);
    path.resize(chunk.size());
    std::iota(path.begin(), path.end(), 0);
    sequence.keep(path, chunk);
  }
}

double macs_of(const Weight& weight) { return static_cast<double>(weight.rows) * weight.cols; }

bool is_float(const Weight& weight) {
  return 8 * static_cast<double>(weight.bytes) >= 15 * macs_of(weight);
}

/// The output matrix is the last that a forward multiplies.
ForwardSplit split_of(std::span<const TraceEntry> entries, double total_ms) {
  ForwardSplit split;
  double last_linear_ms = 0;
  for (const TraceEntry& entry : entries) {
    if (entry.operation == "attention") split.attention_ms += entry.ms;
    if (entry.operation != "linear") continue;
    split.projections_ms += entry.ms;
    last_linear_ms = entry.ms;
  }
  split.head_ms = last_linear_ms;
  split.projections_ms -= last_linear_ms;
  split.rest_ms = total_ms - split.attention_ms - split.projections_ms - split.head_ms;
  return split;
}

ForwardSplit median_of(const std::vector<ForwardSplit>& splits) {
  const auto median = [&](double ForwardSplit::*part) {
    std::vector<double> values;
    for (const ForwardSplit& split : splits) values.push_back(split.*part);
    return spread_of(std::move(values)).median;
  };
  return {median(&ForwardSplit::attention_ms), median(&ForwardSplit::projections_ms),
          median(&ForwardSplit::head_ms), median(&ForwardSplit::rest_ms)};
}

/// A measurement of the memory's bandwidth, or the start of the program, leaves the caches of the
/// host to others; after so many forwards they are near to where a decoding loop has them.
constexpr int kWarmForwards = 10;

/// Milliseconds of one forward over the first `rows` of `tokens`, which are dropped again.
double time_rows(Target& target, KvSequence& sequence, std::span<const TokenId> tokens, int rows,
                 SequenceRows::Logits logits) {
  const Stopwatch watch;
  forward_rows(target, sequence, tokens.first(static_cast<std::size_t>(rows)), logits);
  const double ms = watch.ms();
  sequence.keep({}, {});
  return ms;
}

struct Samples {
  std::vector<double> ms;
  std::vector<ForwardSplit> splits;
};

/// Rows after one context.
class CostRun {
 public:
  CostRun(const CostTargets& targets, KvSequence& sequence, int context, std::vector<int> rows,
          SequenceRows::Logits logits)
      : targets_(targets),
        sequence_(sequence),
        context_(context),
        rows_(std::move(rows)),
        logits_(logits),
        tokens_(arbitrary_tokens(rows_.back(), targets.plain.model().config.vocabulary)),
        samples_(rows_.size()) {
    extend_to(targets.plain, sequence, context);
  }

  void warm_up() {
    measure_once();
    samples_.assign(rows_.size(), {});
  }

  void measure_once() {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (int k = 0; k < kWarmForwards; ++k) time(targets_.plain, 1);
      samples_[i].ms.push_back(time(targets_.plain, rows_[i]));
      targets_.trace.clear();
      const double traced_ms = time(targets_.traced, rows_[i]);
      samples_[i].splits.push_back(split_of(targets_.trace.entries(), traced_ms));
    }
  }

  void add_to(std::vector<ForwardCost>& costs) const {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      costs.push_back(
          {context_, rows_[i], spread_of(samples_[i].ms), median_of(samples_[i].splits)});
    }
  }

 private:
  double time(Target& target, int rows) {
    return time_rows(target, sequence_, tokens_, rows, logits_);
  }

  const CostTargets& targets_;
  KvSequence& sequence_;
  int context_;
  std::vector<int> rows_;
  SequenceRows::Logits logits_;
  std::vector<TokenId> tokens_;
  std::vector<Samples> samples_;
};

}  // namespace

ForwardWork forward_work(const Model& model, const KvShape& cache, int rows, int logit_rows,
                         int context) {
  ForwardWork work;
  const auto add = [&](const Weight& weight, int rows_of_it) {
    double& macs = !is_float(weight)                   ? work.integer_macs
                   : weight.layout.starts_with("bf16") ? work.bf16_macs
                                                       : work.float_macs;
    macs += macs_of(weight) * rows_of_it;
  };
  add(model.output_weight(), logit_rows);
  for (const LayerWeights& layer : model.layers) {
    for (const auto* weight : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up,
                               &layer.down, &layer.recurrent.o}) {
      if (*weight) add(**weight, rows);
    }
  }
  const double far = static_cast<double>(kv_page_bytes(cache)) * context;
  const double near =
      static_cast<double>(near_page_bytes(cache)) * std::min(context, cache.near.reach);
  work.bytes = static_cast<double>(model.weight_bytes) + (far + near) / kPageRows;
  return work;
}

std::vector<ForwardCost> measure_forward_cost(const CostTargets& targets,
                                              const CostSettings& settings,
                                              const std::function<void()>& between,
                                              const StopFlag& stop) {
  const int most_positions = targets.plain.model().config.context;
  KvSequence sequence = targets.plain.cache().start({}, false);
  std::vector<ForwardCost> costs;
  for (const int context : settings.contexts) {
    if (stop.requested() && !costs.empty()) break;
    std::vector<int> rows = settings.rows;
    std::erase_if(rows, [&](int count) { return context + count > most_positions; });
    if (rows.empty()) continue;
    CostRun run(targets, sequence, context, std::move(rows), settings.logits);
    run.warm_up();
    for (int repeat = 0; repeat < settings.repeats; ++repeat) {
      if (repeat > 0 && stop.requested()) break;
      if (between) between();
      run.measure_once();
    }
    run.add_to(costs);
  }
  return costs;
}

}  // namespace talon
