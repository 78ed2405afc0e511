#include "train/policy/policy_loss.h"

#include <vector>

namespace talon {

using torch::Tensor;

Tensor asymmetric_loss(const Tensor& predicted, const Tensor& length, double lambda) {
  const Tensor error = predicted - length;
  return at::where(error < 0, error * -lambda, error).mean();
}

Tensor ordinal_loss(const Tensor& logits, const Tensor& length) {
  const Tensor levels = at::arange(1, logits.size(1) + 1, logits.options());
  const Tensor reached = (length.unsqueeze(1) >= levels).to(logits.scalar_type());
  return at::binary_cross_entropy_with_logits(logits, reached);
}

Tensor stop_law(const Tensor& stop_logit, const Tensor& decides) {
  const Tensor goes_on = at::sigmoid(-stop_logit) * decides;
  std::vector<Tensor> law;
  Tensor reach = at::ones({stop_logit.size(0)}, stop_logit.options());
  for (std::int64_t level = 0; level < stop_logit.size(1); ++level) {
    law.push_back(reach * (1 - goes_on.select(1, level)));
    reach = reach * goes_on.select(1, level);
  }
  law.push_back(reach);
  return at::stack(law, 1);
}

Tensor throughput_loss(const Tensor& law, const Tensor& tokens, const Tensor& ms) {
  return -(law * tokens).sum() / (law * ms).sum();
}

Tensor reward_loss(const Tensor& law, const Tensor& reward) {
  return -(law * reward).sum(1).mean();
}

}  // namespace talon
