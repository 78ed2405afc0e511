#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu.h"
#include "bench/machine/bandwidth.h"
#include "bench/machine/multiply.h"
#include "core/stop.h"
#include "trace/statistics.h"

namespace talon {

/// What to measure: the product of all lists. Names as kernel_workloads.h gives them.
struct KernelSettings {
  std::vector<CpuKernels> kernels;
  std::vector<std::string> models;
  std::vector<std::string> operations;
  std::vector<StorageType> formats;  // of linear operations
  std::vector<int> rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 32, 48, 64};
  std::vector<int> contexts = {16, 512, 2000};  // of attention
  KvType kv = KvType::f16;
  int threads = 0;  // 0: all processors this process may use
  Activations activations = Activations::bits8;
  int repeats = 3;                                  // medians of so many, row counts interleaved
  double least_ms = 2;                              // of calls timed together
  std::size_t ring_bytes = std::size_t{512} << 20;  // more than any cache holds
};

/// One point, beside what the machine allowed in the same repeats.
struct KernelCost {
  std::string_view kernels;
  std::string model;
  std::string operation;
  std::string format;  // of the stored weights, or of the cache
  std::string layout;
  int context = -1;  // of attention
  int rows = 0;
  Spread ms;  // of one call
  double bytes = 0;
  double macs = 0;
  double bandwidth_gb_s = 0;
  double multiply_gmac_s = 0;  // of the arithmetic that this format needs, planes counted
  std::string_view instruction;

  double bandwidth_ms() const { return bytes / bandwidth_gb_s / 1e6; }
  double multiply_ms() const { return macs / multiply_gmac_s / 1e6; }
  double limit_ms() const;
};

/// All that this machine runs, the fastest first.
std::vector<CpuKernels> runnable_kernels();

/// Measures every point that `settings` name; `point` gets each group of rows when it is done,
/// `progress` the groups done and in all. Ends early when `stop` is requested. Throws UsageError
/// for a name that does not exist, listing those that do.
void measure_kernels(const KernelSettings& settings, const StopFlag& stop,
                     const std::function<void(const KernelCost&)>& point,
                     const std::function<void(std::size_t done, std::size_t total)>& progress);

}  // namespace talon
