#pragma once

#include <cstddef>
#include <memory>

#include "core/thread_pool.h"

namespace talon {

/// Larger than any cache that would be measured by mistake.
inline constexpr std::size_t kProbeBytes = std::size_t{1} << 30;

/// Measures how fast this machine's threads read memory: each thread sweeps its own part of one
/// buffer. A buffer that fits in a cache measures that cache, so the buffer should be as large as
/// what it is compared with.
class BandwidthProbe {
 public:
  /// Allocates `bytes` (on huge pages where the system gives them) and touches all of it. Throws
  /// Error without memory.
  BandwidthProbe(int threads, std::size_t bytes);
  ~BandwidthProbe();

  /// One sweep: GB/s (10^9 bytes).
  double sweep();
  std::size_t bytes() const { return bytes_; }

 private:
  ThreadPool pool_;
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

/// The median of several sweeps over a buffer made for the purpose. threads 0: all processors this
/// process may use.
double read_bandwidth_gb_s(int threads, std::size_t bytes, int sweeps = 5);

}  // namespace talon
