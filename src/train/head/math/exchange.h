#pragma once

#include <torch/types.h>

#include <memory>
#include <string>

namespace talon {

/// Several processes that train one head together, each on its own part of the data.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Sums `tensor` over all processes, in place, the same to the bit in each.
  virtual void sum(torch::Tensor& tensor) = 0;
};

/// By torch's distributed package: gloo. The processes find each other through the file `meet`, on
/// a file system that all of them see; MEET.lock beside it tells a file that is in use from one
/// that a run left behind when it was killed. Throws Error if this build has no gloo, or a process
/// is missing.
std::unique_ptr<Exchange> make_exchange(int rank, int ranks, const std::string& meet);

}  // namespace talon
