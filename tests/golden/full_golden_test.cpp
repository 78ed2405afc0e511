#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "deviation.h"
#include "subjects.h"

namespace talon::full_golden_test {
namespace {

using Logits = std::vector<float>;

/// The logits of every row of the passage, and of the last row of every prompt.
struct Recording {
  std::vector<Logits> text, last;
};

Recording record(ModelRun& run, const Golden& golden) {
  Recording recording;
  run.run(golden.text.ids, 0, [&](int, std::span<const float> logits) {
    recording.text.emplace_back(logits.begin(), logits.end());
  });
  for (const GoldenCase& c : golden.cases) {
    run.run(c.prompt, static_cast<int>(c.prompt.size()) - 1,
            [&](int, std::span<const float> logits) {
              recording.last.emplace_back(logits.begin(), logits.end());
            });
  }
  return recording;
}

double largest_difference(const Logits& a, const Logits& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::fabs(double{a[i]} - b[i]));
  }
  return largest;
}

/// KL(p || q) of the two softmaxes.
double divergence(const Logits& p, const Logits& q) {
  const double p_sum = summarise(p).log_sum_exp, q_sum = summarise(q).log_sum_exp;
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double log_p = p[i] - p_sum;
    sum += std::exp(log_p) * (log_p - (q[i] - q_sum));
  }
  return sum;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class FullGolden : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    if (GetParam().missing()) GTEST_SKIP() << GetParam().path();
    golden_ = read_golden(GetParam().golden);
  }
  Golden golden_;
};

TEST_P(FullGolden, ReferenceIsWithinItsToleranceOnEverything) {
  ModelRun run(GetParam().path(), make_reference_backend(2), KvType::f32, 1024);
  const double tolerance = GetParam().tolerance;
  for (std::size_t i = 0; i < golden_.cases.size(); ++i) {
    const auto name = fmt::format("{} case {}", GetParam().golden, i);
    expect_float32(name, check_cases(run, std::span(golden_.cases).subspan(i, 1)), tolerance);
  }
  const int rows = static_cast<int>(golden_.text.ids.size());
  expect_float32(GetParam().golden + " text", check_text(run, golden_.text, rows), tolerance);
}

TEST_P(FullGolden, CpuDivergesFromTheReferenceNoFurtherThanLlamaCpp) {
  Recording expected;
  {
    ModelRun run(GetParam().path(), make_reference_backend(2), KvType::f32, 1024);
    expected = record(run, golden_);
  }
  const GoldenPeer& peer = golden_.peers.front();
  fmt::print(
      "{:<36} text KL mean {:.7f}                last logits: largest difference, mean {:.5f}; "
      "KL mean {:.7f}\n",
      "llama.cpp " + peer.configuration, peer.mean_kl, mean(peer.last_logits_max_abs),
      mean(peer.last_kl));
  for (const Activations activations :
       {Activations::bits8, Activations::mixed, Activations::bits16}) {
    for (const KvType kv : {KvType::f16, KvType::f32}) {
      ModelRun run(GetParam().path(), make_cpu_backend({.threads = 2, .activations = activations}),
                   kv, 1024);
      const Recording found = record(run, golden_);
      std::vector<double> kl, last_kl, last_max;
      for (std::size_t i = 0; i < found.text.size(); ++i) {
        kl.push_back(divergence(expected.text[i], found.text[i]));
      }
      for (std::size_t i = 0; i < found.last.size(); ++i) {
        last_kl.push_back(divergence(expected.last[i], found.last[i]));
        last_max.push_back(largest_difference(expected.last[i], found.last[i]));
      }
      fmt::print(
          "{:<36} text KL mean {:.7f} max {:.7f}  last logits: largest difference, mean "
          "{:.5f}; KL mean {:.7f}\n",
          fmt::format("{} {} activations, kv{}", GetParam().golden, name_of(activations),
                      kv == KvType::f16 ? "f16" : "f32"),
          mean(kl), *std::max_element(kl.begin(), kl.end()), mean(last_max), mean(last_kl));
      const double part = activations == Activations::bits8
                              ? 1.1
                              : 1;  // see part_of_the_peer() in cpu_golden_test.cpp
      EXPECT_LE(mean(kl), part * peer.mean_kl + 1e-6);
      EXPECT_LE(mean(last_max), part * mean(peer.last_logits_max_abs) + 1e-3);
    }
  }
}

std::string subject_name(const testing::TestParamInfo<Subject>& tested) {
  std::string name = tested.param.golden;
  std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, FullGolden, testing::Values(kStories15m, kSmolLm2, kTinyLlama),
                         subject_name);

}  // namespace
}  // namespace talon::full_golden_test
