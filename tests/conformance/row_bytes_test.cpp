#include "row_bytes.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"
#include "core/error.h"
#include "models.h"
#include "spoiled_backend.h"

namespace talon::test::row_bytes_test {
namespace {

TEST(RowBytes, EveryWayToComputeARowGivesTheSameBytes) {
  for (const int threads : {1, 2}) {
    for (auto make : {cpu_backend, reference_backend}) {
      TestModel model(kStories260k, make(threads));
      for (std::uint32_t seed = 1; seed <= 3; ++seed) {
        EXPECT_EQ(differing_rows(model, seed), std::vector<std::string>{})
            << model.backend->name() << ", threads " << threads;
      }
    }
  }
}

TEST(RowBytes, EveryKernelSetGivesTheSameBytesForARow) {
  for (const CpuKernels kernels : {CpuKernels::portable, CpuKernels::avx2, CpuKernels::avx512_vnni,
                                   CpuKernels::avx512_bf16, CpuKernels::amx}) {
    std::unique_ptr<Backend> backend;
    try {
      backend = make_cpu_backend({.threads = 2, .kernels = kernels, .pin = false});
    } catch (const UsageError&) {
      continue;  // not on this machine
    }
    TestModel model(kStories260k, std::move(backend));
    EXPECT_EQ(differing_rows(model, 4), std::vector<std::string>{}) << model.backend->description();
  }
}

TEST(RowBytes, HoldForTheLayoutsOfRealModels) {
  for (const auto& path : {kStories15m, kSmollm2}) {
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs " << path;
    TestModel model(path, cpu_backend(2));
    EXPECT_EQ(differing_rows(model, 5, 40), std::vector<std::string>{}) << path;
  }
}

TEST(RowBytes, TheComparisonDetectsOneUnitInTheLastPlace) {
  TestModel model(kStories260k, std::make_unique<RowCountDependentBackend>(cpu_backend(1), 1));
  EXPECT_FALSE(differing_rows(model, 1).empty());
}

TEST(Exactness, TheComparisonDetectsAKernelWhoseSumsDependOnTheRows) {
  ExactnessPlan plan;
  plan.model = kStories260k;
  plan.prompts = story_prompts();
  plan.samplers = {{.temperature = 0.7}};
  plan.policies = {"fixed"};
  plan.hits = {0.9};
  plan.chunks = {1024};
  plan.threads = {1};
  plan.make_backend = cpu_backend;
  EXPECT_TRUE(check_exactness(plan).differences.empty());
  plan.make_backend = [](int threads) -> std::unique_ptr<Backend> {
    return std::make_unique<RowCountDependentBackend>(cpu_backend(threads), 4096);
  };
  EXPECT_FALSE(check_exactness(plan).differences.empty());
}

}  // namespace
}  // namespace talon::test::row_bytes_test
