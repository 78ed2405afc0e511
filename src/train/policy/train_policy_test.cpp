#include "train/policy/train_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "core/error.h"
#include "train/data/test_folder.h"
#include "train/policy/export_policy.h"
#include "train/policy/policy_network.h"
#include "tree/policies/length_predictor.h"

namespace talon::train_policy_test {
namespace {

using test::DataFolder;
using torch::Tensor;

constexpr int kLevels = 6;
constexpr int kTexts = 20;

/// One number of the feature tells how long drafts are, give or take one.
std::vector<DraftExample> made_up_lengths(int count) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<DraftExample> examples;
  for (int i = 0; i < count; ++i) {
    DraftExample example;
    example.text = i % kTexts;
    for (int j = 0; j < 8; ++j) example.feature.push_back(3 + 2 * normal(random));
    const float length = 3 + (example.feature[2] - 3) + 0.5F * normal(random);
    const int accepted = std::clamp(static_cast<int>(std::lround(length)), 0, kLevels);
    for (int k = 1; k <= kLevels; ++k) example.stops.push_back({std::min(k, accepted), k});
    examples.push_back(std::move(example));
  }
  return examples;
}

/// In half of the rounds all is accepted and in the others nothing: a beam that is alive says
/// which.
std::vector<DraftExample> made_up_rounds(int count) {
  std::mt19937 random(6);
  std::uniform_real_distribution<float> noise(0, 1);
  std::vector<DraftExample> examples;
  for (int i = 0; i < count; ++i) {
    DraftExample example;
    example.text = i % kTexts;
    const bool is_good = random() % 2 == 0;
    for (int k = 1; k <= kLevels; ++k) {
      example.stops.push_back({is_good ? k : 0, 10 * k});
      BeamState state;
      for (std::size_t j = 0; j < state.size(); ++j)
        state[j] = -(is_good ? 0.2F : 2.0F) - noise(random) - static_cast<float>(j);
      if (k < kLevels) example.states.push_back(state);
    }
    examples.push_back(std::move(example));
  }
  return examples;
}

PolicyTrainOptions small_run(const DataFolder& out, const std::string& kind) {
  PolicyTrainOptions options;
  options.kind = kind;
  options.out = out.path().string();
  options.width = 16;
  options.epochs = 25;
  options.batch = 32;
  options.rate = 1e-2;
  return options;
}

PolicyTrainResult train(const PolicyTrainOptions& options, std::vector<DraftExample> examples,
                        const StopFlag* stop = nullptr) {
  const FitHooks hooks{[](std::string_view) {}, stop};
  return train_policy(options, std::move(examples), flat_costs(0.2), {{"model", "made up"}}, hooks);
}

double figure(const PolicyTrainResult& result, const std::string& name) {
  for (const auto& [key, value] : result.figures) {
    if (key == name) return value;
  }
  return NAN;
}

std::string failure_of(const PolicyTrainOptions& options, std::vector<DraftExample> examples) {
  try {
    train(options, std::move(examples));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class LengthLoss : public ::testing::TestWithParam<const char*> {};

TEST_P(LengthLoss, APredictorThatSeesBeatsTheBestConstant) {
  const DataFolder out;
  PolicyTrainOptions options = small_run(out, "ada_eagle");
  options.loss = GetParam();
  const PolicyTrainResult result = train(options, made_up_lengths(800));
  EXPECT_LT(figure(result, "loss"), 0.6 * figure(result, "constant loss"));
  EXPECT_LT(figure(result, "error"), 0.6 * figure(result, "constant error"));
  EXPECT_TRUE(std::filesystem::exists(out.path() / "README.md"));
}

/// What the policy would choose, with the file that was written.
TEST_P(LengthLoss, TheFileIsReadByThePolicysPredictorWhichIsAsGood) {
  const DataFolder out;
  PolicyTrainOptions options = small_run(out, "ada_eagle");
  options.loss = GetParam();
  const PolicyTrainResult result = train(options, made_up_lengths(800));
  const LengthPredictor predictor(open_checkpoint(result.file));
  LengthPredictor::Scratch scratch;
  EXPECT_EQ(predictor.most(), kLevels);
  EXPECT_EQ(predictor.inputs(), 8);
  const ExampleSplit split = split_examples(made_up_lengths(800), options.held_out);
  double error = 0;
  for (const DraftExample& example : split.held_out) {
    const auto found = predictor.predict(example.feature, scratch);
    double length = std::clamp(std::round(found[0]), 0.0F, static_cast<float>(kLevels));
    if (predictor.kind() == LengthPredictor::Kind::ordinal)
      length = static_cast<double>(
          std::count_if(found.begin(), found.end(), [](float chance) { return chance >= 0.5F; }));
    error += std::abs(length - example.accepted());
  }
  EXPECT_NEAR(error / static_cast<double>(split.held_out.size()), figure(result, "error"), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(Losses, LengthLoss, ::testing::Values("ordinal", "asymmetric"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ExportPolicy, LengthPredictorPredictsWhatTorchPredicts) {
  const DataFolder out;
  at::manual_seed(2);
  ParameterStore parameters(parameter_shapes({12, 7, 3}), torch::kFloat, torch::kFloat,
                            torch::kCPU);
  set_random_values(parameters);
  const InputScale scale{at::randn({12}), at::rand({12}) + 0.1};
  const auto file = out.path() / "predictor.safetensors";
  export_length_predictor(file, parameters, scale, {{"kind", "ordinal"}, {"k_max", "3"}});
  const LengthPredictor predictor(open_checkpoint(file));
  LengthPredictor::Scratch scratch;
  const Tensor x = at::randn({5, 12});
  const torch::NoGradGuard no_gradient;
  const Tensor wanted = std::get<0>(
      at::cummin(at::sigmoid(predict_length(parameters, (x - scale.mean) / scale.deviation)), 1));
  for (std::int64_t row = 0; row < x.size(0); ++row) {
    const auto found = predictor.predict({x[row].data_ptr<float>(), 12}, scratch);
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_NEAR(found[k], wanted[row][static_cast<std::int64_t>(k)].item<float>(), 1e-5);
  }
}

TEST(ExportPolicy, RadarNetworkDecidesWhatTorchDecides) {
  const DataFolder out;
  at::manual_seed(2);
  ParameterStore parameters(radar_parameter_shapes(6), torch::kFloat, torch::kFloat, torch::kCPU);
  set_random_values(parameters);
  const auto file = out.path() / "radar.safetensors";
  export_policy(file, parameters, {});
  const RadarNetwork weights(open_checkpoint(file));
  RadarRun network(weights);
  const Tensor states = -at::rand({3, 4, 10}) * 5;
  const torch::NoGradGuard no_gradient;
  const Tensor wanted = at::sigmoid(radar_stop_logit(parameters, states, 0));
  for (std::int64_t round = 0; round < 3; ++round) {
    network.begin_round();
    for (std::int64_t step = 0; step < 4; ++step) {
      const double chance = network.stop_chance({states[round][step].data_ptr<float>(), 10});
      EXPECT_NEAR(chance, wanted[round][step].item<float>(), 1e-5);
    }
  }
}

TEST(ExportPolicy, ValuesThatAreNotFiniteAreNamedAndNothingIsWritten) {
  const DataFolder out;
  ParameterStore parameters(radar_parameter_shapes(2), torch::kFloat, torch::kFloat, torch::kCPU);
  parameters.set("mlp.0.bias", at::full({2}, NAN));
  const auto file = out.path() / "radar.safetensors";
  try {
    export_policy(file, parameters, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"mlp.0.bias\""), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

class RadarReward : public ::testing::TestWithParam<const char*> {};

TEST_P(RadarReward, ANetworkThatSeesTheBeamBeatsTheBestConstantLevel) {
  const DataFolder out;
  PolicyTrainOptions options = small_run(out, "radar");
  options.reward = GetParam();
  options.rate = 3e-3;
  options.epochs = 40;
  const PolicyTrainResult result = train(options, made_up_rounds(800));
  EXPECT_LT(figure(result, "loss"), figure(result, "constant loss"));
  EXPECT_GT(figure(result, "rate"), 1.1 * figure(result, "constant rate"));
  EXPECT_GT(figure(result, "likelier rate"), 1.1 * figure(result, "constant rate"));
  EXPECT_NO_THROW(RadarNetwork(open_checkpoint(result.file)));
}

INSTANTIATE_TEST_SUITE_P(Rewards, RadarReward, ::testing::Values("throughput", "ratio"),
                         [](const auto& test) { return std::string(test.param); });

TEST(TrainPolicy, TheSameSeedGivesTheSameNetwork) {
  const DataFolder out;
  PolicyTrainOptions options = small_run(out, "ada_eagle");
  options.epochs = 2;
  const PolicyTrainResult first = train(options, made_up_lengths(200));
  EXPECT_EQ(figure(first, "loss"), figure(train(options, made_up_lengths(200)), "loss"));
  options.seed = 2;
  EXPECT_NE(figure(first, "loss"), figure(train(options, made_up_lengths(200)), "loss"));
}

TEST(TrainPolicy, SaysAtWhichTemperaturesItsTextsWereDrawn) {
  const DataFolder out;
  PolicyTrainOptions options = small_run(out, "ada_eagle");
  options.epochs = 1;
  options.temperatures = {0, 0.7};
  const PolicyTrainResult result = train(options, made_up_lengths(200));
  EXPECT_EQ(result.facts["settings"]["temperatures"], Json(options.temperatures));
  std::stringstream card;
  card << std::ifstream(out.path() / "README.md").rdbuf();
  EXPECT_NE(card.str().find("\"temperatures\":[0.0,0.7]"), std::string::npos) << card.str();
}

/// Every fifth text is held out here, and would be of the same temperature.
TEST(TrainPolicy, MeasuresOnTextsOfAllTemperatures) {
  std::vector<DraftExample> examples = made_up_lengths(200);
  for (DraftExample& example : examples) example.temperature = 0.25 * (example.text % 5);
  const ExampleSplit split = split_examples(std::move(examples), 0.2);
  std::set<double> held_out;
  std::set<int> texts;
  for (const DraftExample& example : split.held_out) {
    held_out.insert(example.temperature);
    texts.insert(example.text);
  }
  EXPECT_EQ(texts.size(), 4U);
  EXPECT_EQ(held_out.size(), 4U);
}

TEST(TrainPolicy, StoppedInItsFirstEpochItWritesNothing) {
  const DataFolder out;
  StopFlag stop;
  stop.request();
  const auto result = train(small_run(out, "ada_eagle"), made_up_lengths(200), &stop);
  EXPECT_TRUE(result.stopped);
  EXPECT_TRUE(result.file.empty());
  EXPECT_TRUE(std::filesystem::is_empty(out.path()));
}

TEST(TrainPolicy, WhatIsWrongIsNamed) {
  const DataFolder out;
  PolicyTrainOptions options = small_run(out, "ada_eagle");
  EXPECT_NE(failure_of(options, {}).find("found 0 and 0"), std::string::npos);
  EXPECT_NE(failure_of(small_run(out, "radar"), made_up_lengths(100)).find("0 decisions"),
            std::string::npos);
  auto nothing = made_up_lengths(100);
  for (DraftExample& example : nothing) example.stops.clear();
  EXPECT_NE(failure_of(options, nothing).find("drafts nothing"), std::string::npos);
  options.rate = 1e30;
  EXPECT_NE(failure_of(options, made_up_lengths(200)).find("--rate"), std::string::npos);
  options.out = (out.path() / "file").string();
  std::ofstream(options.out) << "here";
  EXPECT_NE(failure_of(options, made_up_lengths(100)).find("cannot make"), std::string::npos);
}

}  // namespace
}  // namespace talon::train_policy_test
