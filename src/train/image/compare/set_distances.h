#pragma once

#include <torch/types.h>

#include <functional>

namespace talon {

// How far two sets of pictures are from each other. Sets are rows of features [count, width] in
// double; each has two rows at least.

/// Frechet distance of the Gaussians with the sets' means and covariances (arXiv:1706.08500, of
/// other features). Of few pictures it is too large: compare values of as many.
double frechet_distance(const torch::Tensor& a, const torch::Tensor& b);

/// Squared maximum mean discrepancy with the kernel (x.y / width + 1)^3 (arXiv:1801.01401), whose
/// expectation does not depend on the counts. It may be negative.
double kernel_distance(const torch::Tensor& a, const torch::Tensor& b);

/// Standard error of a distance by leaving out a twentieth of both sets, each in turn (the
/// delete-a-group jackknife). Groups are rows i, i + 20, ...
double standard_error(const torch::Tensor& a, const torch::Tensor& b,
                      const std::function<double(const torch::Tensor&, const torch::Tensor&)>& of);

/// The share of the rows of `of` that lie within the distance of some row of `points` to its
/// `neighbours`-th neighbour among `points`: the precision of what is drawn where `points` are
/// real, its recall the other way round (arXiv:1904.06991). REQUIRES: more points than neighbours.
double covered_share(const torch::Tensor& of, const torch::Tensor& points, int neighbours);

/// The distance of each row of `from` to the nearest row of `to`: [count of from].
torch::Tensor nearest_distances(const torch::Tensor& from, const torch::Tensor& to);

}  // namespace talon
