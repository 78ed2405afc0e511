#include "train/image/compare/set_distances.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr std::int64_t kGroups = 20;
constexpr std::int64_t kRowsAtOnce = 1024;  // of distances to all others

Tensor covariance(const Tensor& rows) {
  const Tensor centred = rows - rows.mean(0, /*keepdim=*/true);
  return centred.t().mm(centred) / static_cast<double>(rows.size(0) - 1);
}

/// The symmetric square root of a symmetric matrix; eigenvalues that rounding made negative are 0.
Tensor square_root(const Tensor& matrix) {
  const auto [values, vectors] = at::linalg_eigh(matrix);
  return vectors.mul(values.clamp_min(0).sqrt()).mm(vectors.t());
}

Tensor kernel(const Tensor& a, const Tensor& b) {
  return (a.mm(b.t()) / static_cast<double>(a.size(1)) + 1).pow(3);
}

/// The mean over pairs of different rows.
double mean_of_pairs(const Tensor& kernel) {
  const auto count = static_cast<double>(kernel.size(0));
  return (kernel.sum() - kernel.diagonal().sum()).item<double>() / (count * (count - 1));
}

/// [rows of a, rows of b], each from its differences, so that a row is at 0 from itself.
Tensor distances(const Tensor& a, const Tensor& b) {
  constexpr std::int64_t kNotByProducts = 2;
  return at::cdist(a, b, /*p=*/2, kNotByProducts);
}

/// Rows but those of a group.
Tensor without_group(const Tensor& rows, std::int64_t group, std::int64_t groups) {
  return rows.index({at::arange(rows.size(0)).remainder(groups).ne(group)});
}

}  // namespace

double frechet_distance(const Tensor& a, const Tensor& b) {
  const Tensor first = covariance(a), second = covariance(b);
  const Tensor root = square_root(first);
  const Tensor product = at::linalg_eigvalsh(root.mm(second).mm(root));
  const Tensor means = (a.mean(0) - b.mean(0)).pow(2).sum();
  const Tensor spread = first.trace() + second.trace() - 2 * product.clamp_min(0).sqrt().sum();
  return std::max(0.0, (means + spread).item<double>());  // rounding may leave less
}

double kernel_distance(const Tensor& a, const Tensor& b) {
  return mean_of_pairs(kernel(a, a)) + mean_of_pairs(kernel(b, b)) -
         2 * kernel(a, b).mean().item<double>();
}

double standard_error(const Tensor& a, const Tensor& b,
                      const std::function<double(const Tensor&, const Tensor&)>& of) {
  const std::int64_t groups = std::min({kGroups, a.size(0) / 2, b.size(0) / 2});
  if (groups < 2) return std::nan("");
  std::vector<double> values;
  for (std::int64_t group = 0; group < groups; ++group)
    values.push_back(of(without_group(a, group, groups), without_group(b, group, groups)));
  const auto count = static_cast<double>(groups);
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares * (count - 1) / count);
}

double covered_share(const Tensor& of, const Tensor& points, int neighbours) {
  expects(points.size(0) > neighbours, "more points than neighbours");
  // A row is its own nearest.
  const Tensor reach = std::get<0>(distances(points, points).kthvalue(neighbours + 1, /*dim=*/1));
  std::int64_t covered = 0;
  for (const Tensor& some : of.split(kRowsAtOnce))
    covered += distances(some, points).le(reach).any(1).sum().item<std::int64_t>();
  return static_cast<double>(covered) / static_cast<double>(of.size(0));
}

Tensor nearest_distances(const Tensor& from, const Tensor& to) {
  std::vector<Tensor> nearest;
  for (const Tensor& some : from.split(kRowsAtOnce))
    nearest.push_back(std::get<0>(distances(some, to).min(1)));
  return at::cat(nearest);
}

}  // namespace talon
