#include "train/image/network/codebook.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "train/image/network/vq_model.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr double kDecay = 0.99;
constexpr double kUnused = 0.03;  // of the mean use; below it a code is restarted

/// `count` of the rows [0, weights), those of larger weight more likely.
Tensor draw_rows(const Tensor& weights, std::int64_t count, std::uint64_t seed) {
  return at::multinomial(weights, count, /*replacement=*/weights.numel() < count,
                         at::detail::createCPUGenerator(seed));
}

}  // namespace

Codebook::Codebook(std::int64_t codes, std::int64_t width)
    : vectors(torch::zeros({codes, width})),
      uses(torch::ones({codes})),
      sums(torch::zeros({codes, width})) {}

void Codebook::start(const Tensor& sample, std::uint64_t seed) {
  vectors.copy_(
      sample.index_select(0, draw_rows(torch::ones({sample.size(0)}), vectors.size(0), seed)));
  uses.fill_(1);
  sums.copy_(vectors);
  started = true;
}

Tensor Codebook::nearest(const Tensor& rows) const {
  return at::mm(rows.to(vectors.scalar_type()), vectors.t()).argmax(1);
}

Tensor Codebook::look_up(const Tensor& codes) const { return vectors.index_select(0, codes); }

int Codebook::follow(const Tensor& rows, const Tensor& codes, int most_restarts,
                     std::uint64_t seed) {
  const torch::NoGradGuard no_gradient;
  const Tensor counts = at::bincount(codes, {}, uses.numel()).to(uses.scalar_type());
  const Tensor added = at::zeros_like(sums).index_add_(0, codes, rows);
  uses.mul_(kDecay).add_(counts, 1 - kDecay);
  sums.mul_(kDecay).add_(added, 1 - kDecay);
  vectors.copy_(unit_rows(sums));
  const Tensor unused = at::nonzero(uses < kUnused * uses.mean()).flatten();
  const auto restarts = std::min<std::int64_t>({unused.numel(), most_restarts, rows.size(0)});
  if (restarts == 0) return 0;
  const Tensor missing = (1 - (rows * look_up(codes)).sum(1)).clamp_min(0) + 1e-6;
  const Tensor chosen = rows.index_select(0, draw_rows(missing, restarts, seed));
  const Tensor which = unused.narrow(0, 0, restarts);
  const Tensor use = uses.mean().expand({restarts});
  vectors.index_copy_(0, which, chosen);
  uses.index_copy_(0, which, use);
  sums.index_copy_(0, which, chosen * use.unsqueeze(1));
  return static_cast<int>(restarts);
}

double perplexity(const Tensor& code_counts) {
  const Tensor share = code_counts.to(torch::kDouble) / code_counts.sum().item<double>();
  return std::exp(-(share * share.clamp_min(1e-300).log()).sum().item<double>());
}

}  // namespace talon
