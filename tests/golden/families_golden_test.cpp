#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "golden_data.h"
#include "model_run.h"

namespace talon::families_golden_test {
namespace {

constexpr double kTolerance = 1e-4;

class FamiliesGolden : public testing::TestWithParam<std::string> {
 protected:
  void check(std::unique_ptr<Backend> backend) {
    const std::string folder = "families/" + GetParam();
    const Json expected = read_golden_json(folder + "/expected.json");
    const auto ids = expected.at("ids").get<std::vector<TokenId>>();
    ModelRun run(std::string(TALON_TEST_DATA) + "/golden/" + folder, std::move(backend),
                 KvType::f32, 64);
    double largest = 0;
    run.run(ids, 0, [&](int row, std::span<const float> logits) {
      const Json& wanted = expected.at("logits").at(static_cast<std::size_t>(row));
      ASSERT_EQ(logits.size(), wanted.size());
      for (std::size_t i = 0; i < logits.size(); ++i) {
        largest = std::max(largest, std::fabs(logits[i] - wanted[i].get<double>()));
      }
    });
    EXPECT_LE(largest, kTolerance);
  }
};

TEST_P(FamiliesGolden, ReferenceGivesTheLogitsOfTransformers) { check(make_reference_backend(2)); }

TEST_P(FamiliesGolden, CpuGivesTheLogitsOfTransformers) {
  // Their weights are bf16, whose inputs are else rounded too.
  check(make_cpu_backend({.threads = 2, .activations = Activations::bits16}));
}

std::string family_name(const testing::TestParamInfo<std::string>& tested) { return tested.param; }
INSTANTIATE_TEST_SUITE_P(Models, FamiliesGolden,
                         testing::Values("llama3_scaling_bias", "llama_yarn", "llama_linear",
                                         "mistral_window", "qwen2", "qwen2_window", "qwen3"),
                         family_name);

}  // namespace
}  // namespace talon::families_golden_test
