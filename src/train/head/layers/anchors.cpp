#include "train/head/layers/anchors.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace talon {
namespace {

using torch::Tensor;

constexpr std::int64_t kMultiple = 32;  // of anchors, as BatchOptions::multiple

/// `count` of 0 .. size - 1, ascending.
std::vector<std::int64_t> drawn(std::int64_t size, std::int64_t count, std::mt19937_64& random) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  for (std::int64_t i = 0; i < std::min(count, size); ++i) {
    const auto rest = static_cast<std::uint64_t>(size - i);
    std::swap(all[static_cast<std::size_t>(i)],
              all[static_cast<std::size_t>(i + static_cast<std::int64_t>(random() % rest))]);
  }
  all.resize(static_cast<std::size_t>(std::min(count, size)));
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

Batch with_anchors(const Batch& batch, int most, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Batch few = batch;
  std::vector<std::int64_t> chosen;
  for (SequenceRange& range : few.sequences) {
    const std::int64_t first = range.query_begin;
    const auto of_sequence = drawn(range.query_count, most, random);
    range.query_begin = static_cast<std::int64_t>(chosen.size());
    range.query_count = static_cast<std::int64_t>(of_sequence.size());
    for (const std::int64_t query : of_sequence) chosen.push_back(first + query);
  }
  few.real_queries = static_cast<std::int64_t>(chosen.size());
  const std::int64_t padded = (few.real_queries + kMultiple - 1) / kMultiple * kMultiple;
  chosen.resize(static_cast<std::size_t>(padded), 0);
  const Tensor index = torch::tensor(chosen, torch::kLong).to(batch.query_pair.device());
  few.query_pair = batch.query_pair.index_select(0, index);
  for (std::size_t step = 0; step < batch.step_token.size(); ++step) {
    few.step_token[step] = batch.step_token[step].index_select(0, index);
    few.step_wanted[step] = batch.step_wanted[step].index_select(0, index);
    few.step_weight[step] = batch.step_weight[step].index_select(0, index);
    const std::int64_t padding = padded - few.real_queries;
    few.step_weight[step].narrow(0, few.real_queries, padding).zero_();
  }
  return few;
}

AnchoredRows blocks_behind(const Batch& batch, int rows, bool causal) {
  const Tensor pairs = batch.query_pair.to(torch::kCPU).contiguous();
  const auto* first = pairs.data_ptr<std::int64_t>();
  return {rows, causal, {first, first + pairs.numel()}, batch.sequences};
}

}  // namespace talon
