#include "bench/machine/kernels.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>

#include "backend/cpu/cpu_features.h"
#include "bench/machine/kernel_workloads.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "core/thread_pool.h"

namespace talon {
namespace {

constexpr int kMostCalls = 10000;  // timed together

/// One workload and all its row counts.
struct Group {
  const KernelModel* model;
  std::string_view operation;
  StorageType format = StorageType::f16;
  int context = -1;

  bool is_attention() const { return context >= 0; }
};

template <typename Range>
std::string joined(const Range& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

const KernelModel& find_model(const std::string& name) {
  std::vector<std::string_view> names;
  for (const KernelModel& model : kernel_models()) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  throw UsageError(
      fmt::format("bench kernels: expected a model of {}, got \"{}\"", joined(names), name));
}

std::string_view find_operation(const std::string& name) {
  for (const std::string_view operation : kernel_operations()) {
    if (operation == name) return operation;
  }
  throw UsageError(fmt::format("bench kernels: expected an operation of {}, got \"{}\"",
                               joined(kernel_operations()), name));
}

std::vector<Group> groups_of(const KernelSettings& settings) {
  std::vector<Group> groups;
  for (const std::string& name : settings.models) {
    const KernelModel& model = find_model(name);
    for (const std::string& operation_name : settings.operations) {
      const std::string_view operation = find_operation(operation_name);
      if (operation == "attention") {
        for (const int context : settings.contexts)
          groups.push_back({&model, operation, StorageType::f16, context});
      } else {
        for (const StorageType format : settings.formats) {
          if (can_be_stored(model, operation, format)) {
            groups.push_back({&model, operation, format});
          }
        }
      }
    }
  }
  if (groups.empty()) {
    throw UsageError("bench kernels: expected a shape whose rows are whole blocks of the format");
  }
  return groups;
}

/// One backend, its instructions' rates and what is measured on it.
class KernelBench {
 public:
  KernelBench(const KernelSettings& settings, CpuKernels kernels, BandwidthProbe& probe)
      : settings_(settings),
        name_(cpu::name_of(kernels)),
        probe_(probe),
        backend_(make_cpu_backend({settings.threads, kernels, settings.activations, true, false})),
        int8_(measure_multiply_rate(settings.threads, Arithmetic::int8, kernels)),
        bf16_(measure_multiply_rate(settings.threads, Arithmetic::bf16, kernels)),
        f32_(measure_multiply_rate(settings.threads, Arithmetic::f32, kernels)) {}

  void measure(const Group& group, const std::function<void(const KernelCost&)>& point) {
    const std::unique_ptr<KernelWorkload> workload = make_workload(group);
    std::vector<std::vector<double>> ms(settings_.rows.size());
    std::vector<double> bandwidths;
    for (int repeat = 0; repeat < settings_.repeats; ++repeat) {
      bandwidths.push_back(probe_.sweep());
      for (std::size_t i = 0; i < ms.size(); ++i)
        ms[i].push_back(time_calls(*workload, settings_.rows[i]));
    }
    for (std::size_t i = 0; i < ms.size(); ++i) {
      KernelCost cost = describe(group, *workload, settings_.rows[i]);
      cost.ms = spread_of(ms[i]);
      cost.bandwidth_gb_s = spread_of(bandwidths).median;
      point(cost);
    }
  }

 private:
  std::unique_ptr<KernelWorkload> make_workload(const Group& group) {
    const int most_rows = *std::max_element(settings_.rows.begin(), settings_.rows.end());
    if (group.is_attention()) {
      return make_attention_workload(*backend_, *group.model, settings_.kv, group.context,
                                     most_rows, settings_.ring_bytes);
    }
    return make_linear_workload(*backend_, *group.model, group.operation, group.format, most_rows,
                                settings_.ring_bytes);
  }

  /// Milliseconds of one call: of the first, where that is long enough to time, else of as many as
  /// are.
  double time_calls(KernelWorkload& workload, int rows) const {
    Stopwatch once;
    workload.call(rows);
    const double first_ms = once.ms();
    if (first_ms >= settings_.least_ms) return first_ms;
    const int calls =
        static_cast<int>(std::min(std::ceil(settings_.least_ms / first_ms), double{kMostCalls}));
    const Stopwatch all;
    for (int call = 0; call < calls; ++call) workload.call(rows);
    return all.ms() / calls;
  }

  KernelCost describe(const Group& group, const KernelWorkload& workload, int rows) const {
    KernelCost cost;
    cost.kernels = name_;
    cost.model = group.model->name;
    cost.operation = group.operation;
    cost.layout = workload.layout();
    cost.format = group.is_attention() ? cost.layout.substr(0, 3) : name_of(group.format);
    cost.context = group.context;
    cost.rows = rows;
    cost.bytes = workload.bytes(rows);
    cost.macs = workload.macs(rows);
    const bool floats = group.is_attention() || block_shape(group.format).elements == 1;
    const bool fine = settings_.activations == Activations::bits16;
    const bool rounded = !group.is_attention() && group.format == StorageType::bf16 && !fine;
    const MultiplyRate& rate = rounded ? bf16_ : floats ? f32_ : int8_;
    cost.multiply_gmac_s = rate.gmac_s / (!floats && fine ? 2 : 1);
    cost.instruction = rate.instruction;
    return cost;
  }

  const KernelSettings& settings_;
  std::string_view name_;
  BandwidthProbe& probe_;
  std::unique_ptr<Backend> backend_;
  MultiplyRate int8_;
  MultiplyRate bf16_;
  MultiplyRate f32_;
};

}  // namespace

double KernelCost::limit_ms() const { return std::max(bandwidth_ms(), multiply_ms()); }

std::vector<CpuKernels> runnable_kernels() {
  std::vector<CpuKernels> runnable;
  std::ranges::copy_if(cpu::kAllKernels, std::back_inserter(runnable), cpu::supported);
  return runnable;
}

void measure_kernels(const KernelSettings& settings, const StopFlag& stop,
                     const std::function<void(const KernelCost&)>& point,
                     const std::function<void(std::size_t done, std::size_t total)>& progress) {
  expects(!settings.rows.empty() && settings.repeats > 0, "something to measure");
  const std::vector<Group> groups = groups_of(settings);
  BandwidthProbe probe(settings.threads, settings.ring_bytes);
  std::size_t done = 0;
  for (const CpuKernels kernels : settings.kernels) {
    KernelBench bench(settings, kernels, probe);
    for (const Group& group : groups) {
      if (stop.requested()) return;
      bench.measure(group, point);
      progress(++done, groups.size() * settings.kernels.size());
    }
  }
}

}  // namespace talon
