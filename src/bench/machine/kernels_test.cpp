#include "bench/machine/kernels.h"

#include <gtest/gtest.h>

#include "bench/machine/kernel_workloads.h"
#include "core/error.h"

namespace talon::kernels_test {
namespace {

KernelSettings smallest() {
  KernelSettings settings;
  settings.kernels = {CpuKernels::portable};
  settings.models = {"smollm2-135m"};
  settings.rows = {1, 3};
  settings.contexts = {20};
  settings.threads = 1;
  settings.repeats = 1;
  settings.least_ms = 0;
  settings.ring_bytes = 1 << 20;
  return settings;
}

std::vector<KernelCost> measure(const KernelSettings& settings, const StopFlag& stop = {}) {
  std::vector<KernelCost> costs;
  measure_kernels(
      settings, stop, [&](const KernelCost& cost) { costs.push_back(cost); },
      [](std::size_t, std::size_t) {});
  return costs;
}

TEST(Kernels, EveryOperationHasACostBesideItsLimit) {
  KernelSettings settings = smallest();
  settings.operations = {"qkv", "output", "gate_up", "down", "attention"};
  settings.formats = {StorageType::q4_1};
  const std::vector<KernelCost> costs = measure(settings);
  ASSERT_EQ(costs.size(), 10u);
  for (const KernelCost& cost : costs) {
    EXPECT_GT(cost.ms.median, 0) << cost.operation;
    EXPECT_GT(cost.limit_ms(), 0) << cost.operation;
    EXPECT_GT(cost.bytes, 0) << cost.operation;
  }
  EXPECT_EQ(costs[0].macs, 576.0 * (576 + 2 * 192));
  EXPECT_EQ(costs[1].macs, 3 * costs[0].macs);
  EXPECT_EQ(costs[1].bytes, costs[0].bytes) << "weights are read once for all rows";
}

TEST(Kernels, EveryFormatCanBeMadeUp) {
  KernelSettings settings = smallest();
  settings.models = {"tinyllama-1.1b"};
  settings.operations = {"output"};
  settings.formats.assign(kernel_formats().begin(), kernel_formats().end());
  settings.rows = {1};
  EXPECT_EQ(measure(settings).size(), kernel_formats().size());
}

TEST(Kernels, FormatsWhoseBlocksDoNotFitAShapeAreLeftOut) {
  KernelSettings settings = smallest();
  settings.operations = {"output", "down"};  // 576 and 1536 inputs
  settings.formats = {StorageType::q6_k};
  settings.rows = {1};
  const std::vector<KernelCost> costs = measure(settings);
  ASSERT_EQ(costs.size(), 1u);
  EXPECT_EQ(costs[0].operation, "down");
  settings.operations = {"output"};
  EXPECT_THROW(measure(settings), UsageError);
}

TEST(Kernels, SixteenBitInputsTakeTwoProducts) {
  KernelSettings settings = smallest();
  settings.operations = {"output"};
  settings.formats = {StorageType::q4_1, StorageType::bf16};
  settings.rows = {1};
  // Times, on a machine that may do other work: one quiet pair of five says it.
  bool two_products = false, floats_alike = false;
  for (int attempt = 0; attempt < 5 && !(two_products && floats_alike); ++attempt) {
    settings.activations = Activations::bits16;
    const std::vector<KernelCost> sixteen = measure(settings);
    settings.activations = Activations::bits8;
    const std::vector<KernelCost> eight = measure(settings);
    two_products |= sixteen[0].multiply_gmac_s < 0.75 * eight[0].multiply_gmac_s;
    floats_alike |= sixteen[1].multiply_gmac_s > 0.5 * eight[1].multiply_gmac_s;
  }
  EXPECT_TRUE(two_products);
  EXPECT_TRUE(floats_alike) << "floats have no planes";
}

TEST(Kernels, StopWhenAsked) {
  KernelSettings settings = smallest();
  settings.operations = {"output"};
  settings.formats = {StorageType::q4_1};
  StopFlag stop;
  stop.request();
  EXPECT_TRUE(measure(settings, stop).empty());
}

TEST(Kernels, NamesThatDoNotExistAreRefusedWithThoseThatDo) {
  KernelSettings settings = smallest();
  settings.operations = {"output"};
  settings.models = {"gpt"};
  EXPECT_THROW(
      try { measure(settings); } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find("tinyllama-1.1b"), std::string::npos);
        throw;
      },
      UsageError);
  settings = smallest();
  settings.operations = {"softmax"};
  EXPECT_THROW(measure(settings), UsageError);
}

TEST(Kernels, SomeRunOnEveryMachine) { EXPECT_EQ(runnable_kernels().back(), CpuKernels::portable); }

}  // namespace
}  // namespace talon::kernels_test
