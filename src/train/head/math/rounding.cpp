#include "train/head/math/rounding.h"

#include <vector>

namespace talon {
namespace {

using torch::Tensor;

constexpr std::int64_t kGroup = 32, kSteps = 15;
constexpr float kMostOfHalf = 65504;

/// x: [rows, groups, width], float.
Tensor rounded_groups(const Tensor& x) {
  const auto as_half = [](const Tensor& y) { return y.to(torch::kHalf).to(torch::kFloat); };
  const Tensor minimum = as_half(x.amin(2, true).clamp(-kMostOfHalf, kMostOfHalf));
  const Tensor scale = as_half(((x.amax(2, true) - minimum) / kSteps).clamp(0, kMostOfHalf));
  const Tensor code = ((x - minimum) / scale).round_().clamp_(0, kSteps);
  return at::where(scale > 0, code * scale + minimum, minimum);
}

}  // namespace

Tensor rounded_to_int4(const Tensor& matrix) {
  const Tensor x = matrix.detach().to(torch::kFloat);
  const std::int64_t rows = x.size(0), columns = x.size(1), whole = columns / kGroup * kGroup;
  const auto rounded = [&](std::int64_t begin, std::int64_t width, std::int64_t group) {
    const Tensor part = x.narrow(1, begin, width).reshape({rows, width / group, group});
    return rounded_groups(part).reshape({rows, width});
  };
  std::vector<Tensor> parts;
  if (whole > 0) parts.push_back(rounded(0, whole, kGroup));
  if (whole < columns) parts.push_back(rounded(whole, columns - whole, columns - whole));
  return at::cat(parts, 1).to(matrix.scalar_type());
}

}  // namespace talon
