// What drawing one token takes, over a vocabulary of SmolLM2's size: the race (sample/race.h) with
// the instructions of each set, beside the inverse of the cumulative distribution, which weighs
// every token. The argument is the temperature in tenths. `codes` draws as pictures are drawn.
#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <vector>

#include "sample/race.h"
#include "sample/sampler.h"
#include "sample/token_weights.h"

namespace talon {
namespace {

constexpr int kVocabulary = 49152;

/// A row as a chat model has them: a few likely tokens and a wide bell of others.
std::vector<float> usual_row() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2.5F);
  std::vector<float> logits(kVocabulary);
  for (float& logit : logits) logit = normal(random);
  for (int i = 0; i < 20; ++i)
    logits[random() % kVocabulary] = 16.0F - 0.4F * static_cast<float>(i);
  return logits;
}

double temperature_of(const benchmark::State& state) {
  return static_cast<double>(state.range(0)) / 10;
}

/// The token at a uniform share of the whole weight.
int draw_by_inverse(const std::vector<float>& logits, double temperature, double uniform,
                    std::vector<double>& weights) {
  const float largest = best_race_kernels().largest(logits.data(), kVocabulary).value;
  token_weights(logits, largest, temperature, weights);
  double sums[4] = {};
  for (std::size_t i = 0; i < weights.size(); i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += weights[i + lane];
  }
  const double wanted = uniform * ((sums[0] + sums[2]) + (sums[1] + sums[3]));
  double sum = 0;
  int token = 0;
  while (token + 1 < kVocabulary && (sum += weights[static_cast<std::size_t>(token)]) <= wanted) {
    ++token;
  }
  return token;
}

void inverse(benchmark::State& state) {
  const std::vector<float> logits = usual_row();
  std::vector<double> weights(logits.size());
  const PositionRandom random(1, 0);
  std::uint64_t position = 0;
  for (auto _ : state) {
    const double uniform = random.uniform(position++, RandomUse::sample);
    benchmark::DoNotOptimize(draw_by_inverse(logits, temperature_of(state), uniform, weights));
  }
}

void run_race(benchmark::State& state, const RaceKernels& kernels) {
  const std::vector<float> logits = usual_row();
  const PositionRandom random(1, 0);
  std::uint64_t position = 0;
  for (auto _ : state) {
    const LargestLogit largest = kernels.largest(logits.data(), kVocabulary);
    const RaceRow row{logits, largest.value, temperature_of(state)};
    benchmark::DoNotOptimize(race(row, largest.index, RaceNoise(random, position++), kernels));
  }
}

void words(benchmark::State& state, const RaceKernels& kernels) {
  std::vector<std::uint32_t> found(kVocabulary);
  std::uint64_t position = 0;
  for (auto _ : state) {
    kernels.words(PositionRandom(1, 0).words(position++, RandomUse::race_high), 0,
                  kVocabulary / kWordGroup, found.data());
    benchmark::DoNotOptimize(found.data());
  }
}

void gumbel(benchmark::State& state, const RaceKernels& kernels) {
  constexpr int kDraftList = 12288;
  std::vector<std::uint32_t> found(kDraftList);
  std::vector<float> noise(kDraftList);
  kernels.words(PositionRandom(1, 0).words(1, RandomUse::race_high), 0, kDraftList / kWordGroup,
                found.data());
  for (auto _ : state) {
    kernels.gumbel(found.data(), kDraftList, 1.0F, noise.data());
    benchmark::DoNotOptimize(noise.data());
  }
}

void sampler(benchmark::State& state, SamplerOptions options) {
  const std::vector<float> logits = usual_row();
  options.temperature = temperature_of(state);
  Sampler drawing(options, kVocabulary);
  const PositionRandom random(1, 0);
  std::uint64_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(drawing.sample(logits, {}, random, position++));
  }
}

/// One of 16,384 codes of a flat row, of which the largest `top_k` can be drawn; 0: all.
void codes(benchmark::State& state) {
  constexpr int kCodes = 16384;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2.5F);
  std::vector<float> logits(kCodes);
  for (float& logit : logits) logit = normal(random);
  SamplerOptions options{.temperature = 1};
  options.top_k = static_cast<int>(state.range(0));
  Sampler drawing(options, kCodes);
  const PositionRandom stream(1, 0);
  std::uint64_t position = 0;
  for (auto _ : state) benchmark::DoNotOptimize(drawing.sample(logits, {}, stream, position++));
}

const bool registered = [] {
  using benchmark::kMicrosecond;
  benchmark::RegisterBenchmark("inverse", inverse)->Arg(10)->Unit(kMicrosecond);
  for (const RaceKernels& kernels : race_kernels()) {
    if (!kernels.supported) continue;
    const std::string set(kernels.instructions);
    benchmark::RegisterBenchmark(("race/" + set).c_str(), run_race, kernels)
        ->Arg(3)
        ->Arg(7)
        ->Arg(10)
        ->Arg(20)
        ->Unit(kMicrosecond);
    benchmark::RegisterBenchmark(("words/" + set).c_str(), words, kernels)->Unit(kMicrosecond);
    benchmark::RegisterBenchmark(("gumbel of 12288/" + set).c_str(), gumbel, kernels)
        ->Unit(kMicrosecond);
  }
  for (const auto& [name, options] :
       {std::pair{"sample", SamplerOptions{}},
        std::pair{"sample top_k 20", SamplerOptions{.top_k = 20}},
        std::pair{"sample top_k 2000", SamplerOptions{.top_k = 2000}},
        std::pair{"sample top_p .95", SamplerOptions{.top_p = 0.95}},
        std::pair{"sample min_p .02", SamplerOptions{.min_p = 0.02}},
        std::pair{"sample typical_p .9", SamplerOptions{.typical_p = 0.9}}}) {
    benchmark::RegisterBenchmark(name, sampler, options)->Arg(10)->Unit(kMicrosecond);
  }
  benchmark::RegisterBenchmark("codes, top_k", codes)
      ->Arg(0)
      ->Arg(1000)
      ->Arg(2000)
      ->Unit(kMicrosecond);
  return true;
}();

}  // namespace
}  // namespace talon
