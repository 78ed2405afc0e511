#include "model_run.h"

#include <algorithm>
#include <cmath>

namespace talon {
namespace {
constexpr int kChunk = 64;
}

ModelRun::ModelRun(const std::filesystem::path& path, std::unique_ptr<Backend> backend, KvType kv,
                   int context, std::vector<FeatureTap> taps, const LoadOptions& options)
    : backend_(std::move(backend)) {
  const Checkpoint checkpoint = open_checkpoint(path);
  model_ = load_model(checkpoint, *backend_, options);
  const int pages = (context + kPageRows - 1) / kPageRows;
  cache_ = std::make_unique<KvCache>(*backend_, kv_shape(model_.config, pages, kv));
  target_ = std::make_unique<Target>(model_, *cache_, kChunk, std::move(taps));
}

void ModelRun::run(std::span<const TokenId> ids, int first, const RowVisitor& visit) {
  KvSequence sequence = cache_->start(ids, /*reuse=*/false);
  const int count = static_cast<int>(ids.size());
  const int vocabulary = model_.config.vocabulary;
  std::vector<float> logits;
  std::vector<NodeId> path;
  for (int begin = 0, end = 0; begin < count; begin = end) {
    end = std::min(begin + kChunk, count);
    if (begin < first) end = std::min(end, first);
    const auto tokens =
        ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    if (!sequence.reserve(end - begin)) throw std::runtime_error("the cache of the test is small");
    const bool shown = begin >= first;
    const SequenceRows rows{
        &sequence, tokens, {}, shown ? SequenceRows::Logits::all : SequenceRows::Logits::none};
    const ForwardResult result = target_->forward({&rows, 1});
    for (int row = begin; shown && row < end; ++row) {
      logits.resize(static_cast<std::size_t>(vocabulary));
      backend_->download(result.logits.row_range(row - begin, 1), logits);
      visit(row, logits);
    }
    path.resize(tokens.size());
    for (std::size_t i = 0; i < path.size(); ++i) path[i] = static_cast<NodeId>(i);
    sequence.keep(path, tokens);
  }
}

std::vector<float> ModelRun::features(std::span<const TokenId> ids) {
  KvSequence sequence = cache_->start(ids, /*reuse=*/false);
  if (!sequence.reserve(static_cast<int>(ids.size()))) return {};
  const SequenceRows rows{&sequence, ids, {}, SequenceRows::Logits::none};
  const ForwardResult result = target_->forward({&rows, 1});
  std::vector<float> values(ids.size() * static_cast<std::size_t>(target_->feature_width()));
  backend_->download(result.features, values);
  return values;
}

RowSummary summarise(std::span<const float> logits) {
  RowSummary s;
  const auto best = std::max_element(logits.begin(), logits.end());
  s.best = static_cast<TokenId>(best - logits.begin());
  s.smallest = *std::min_element(logits.begin(), logits.end());
  double second = -INFINITY, sum = 0, exponentials = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    sum += logits[i];
    exponentials += std::exp(double{logits[i]} - *best);
    if (static_cast<TokenId>(i) != s.best) second = std::max(second, double{logits[i]});
  }
  const auto count = static_cast<double>(logits.size());
  s.margin = *best - second;
  s.log_sum_exp = *best + std::log(exponentials);
  s.mean = sum / count;
  double squares = 0;
  for (const float value : logits) squares += (value - s.mean) * (value - s.mean);
  s.deviation = std::sqrt(squares / count);
  return s;
}

}  // namespace talon
