#include "train/policy/length_task.h"

#include <algorithm>

#include "core/error.h"
#include "train/policy/export_policy.h"
#include "train/policy/policy_loss.h"
#include "train/policy/policy_network.h"

namespace talon {
namespace {

using torch::Tensor;

/// Features and accepted lengths of some texts.
struct LengthData {
  Tensor feature;  // [drafts, 2 * hidden]
  Tensor length;   // [drafts]
};

LengthData data_of(const std::vector<DraftExample>& examples, std::size_t inputs) {
  const auto rows = static_cast<std::int64_t>(examples.size());
  LengthData data{at::empty({rows, static_cast<std::int64_t>(inputs)}, torch::kFloat),
                  at::empty({rows}, torch::kFloat)};
  float* feature = data.feature.data_ptr<float>();
  float* length = data.length.data_ptr<float>();
  for (const DraftExample& example : examples) {
    expects(example.feature.size() == inputs, "features of one size");
    feature = std::copy(example.feature.begin(), example.feature.end(), feature);
    *length++ = static_cast<float>(example.accepted());
  }
  return data;
}

int deepest_draft(const ExampleSplit& split) {
  std::size_t levels = 0;
  for (const auto* part : {&split.train, &split.held_out}) {
    for (const DraftExample& example : *part) levels = std::max(levels, example.stops.size());
  }
  if (levels == 0)
    fail("train policy: expected drafts, found that the drafter drafts nothing on these texts");
  return static_cast<int>(levels);
}

InputScale scale_of(const Tensor& feature) {
  const Tensor mean = feature.mean(0);
  const Tensor deviation = (feature - mean).square().mean(0).sqrt();
  constexpr double kLeast = 0.05;  // of the mean deviation: columns that hardly move stay small
  const double least = std::max(kLeast * deviation.mean().item<double>(), 1e-6);
  return {mean, deviation.clamp_min(least)};
}

class LengthTask : public PolicyTask {
 public:
  LengthTask(const ExampleSplit& split, const PolicyTrainOptions& options)
      : options_(options),
        most_(deepest_draft(split)),
        ordinal_(options.loss == "ordinal"),
        train_(data_of(split.train, split.train.front().feature.size())),
        held_out_(data_of(split.held_out, split.train.front().feature.size())),
        scale_(scale_of(train_.feature)),
        parameters_(parameter_shapes({train_.feature.size(1), options.width_used(),
                                      ordinal_ ? static_cast<std::int64_t>(most_) : 1}),
                    torch::kFloat, torch::kFloat, torch::kCPU) {
    for (LengthData* data : {&train_, &held_out_})
      data->feature.sub_(scale_.mean).div_(scale_.deviation);
    set_random_values(parameters_);
    constant_ = best_constant();
    parameters_.set("out.bias", constant_);
  }

  FitTask fit_task() override {
    return {parameters_, train_.length.size(0),
            [this](const Tensor& rows) {
              return loss(predict_length(parameters_, train_.feature.index_select(0, rows)),
                          train_.length.index_select(0, rows));
            },
            [this] { return measure(); }};
  }

  void write(const std::filesystem::path& file) const override {
    export_length_predictor(file, parameters_, scale_,
                            {{"kind", options_.loss}, {"k_max", std::to_string(most_)}});
  }

 private:
  /// output: of the network, [rows, outputs].
  Tensor loss(const Tensor& output, const Tensor& length) const {
    return ordinal_ ? ordinal_loss(output, length)
                    : asymmetric_loss(output.select(1, 0), length, options_.lambda);
  }
  double error(const Tensor& output, const Tensor& length) const {
    const Tensor chosen = ordinal_
                              ? at::cumprod((output >= 0).to(torch::kFloat), 1).sum(1)
                              : at::round(output.select(1, 0)).clamp(0, static_cast<double>(most_));
    return (chosen - length).abs().mean().item<double>();
  }

  /// What a network that sees nothing should put out.
  Tensor best_constant() const {
    const Tensor& length = train_.length;
    if (!ordinal_) {
      const double share = options_.lambda / (1 + options_.lambda);
      const auto place = static_cast<std::int64_t>(share * static_cast<double>(length.size(0) - 1));
      return std::get<0>(length.sort()).narrow(0, place, 1);
    }
    const Tensor levels = at::arange(1, most_ + 1, length.options());
    const Tensor chance = (length.unsqueeze(1) >= levels).to(torch::kFloat).mean(0);
    return at::logit(chance.clamp(1e-3, 1 - 1e-3));
  }

  Figures measure() const {
    const Tensor output = predict_length(parameters_, held_out_.feature);
    const Tensor constant = constant_.unsqueeze(0).expand_as(output);
    const Tensor& length = held_out_.length;
    return {{"loss", loss(output, length).item<double>()},
            {"error", error(output, length)},
            {"constant loss", loss(constant, length).item<double>()},
            {"constant error", error(constant, length)}};
  }

  PolicyTrainOptions options_;
  int most_;
  bool ordinal_;
  LengthData train_, held_out_;
  InputScale scale_;
  ParameterStore parameters_;
  Tensor constant_;  // [outputs]
};

}  // namespace

std::unique_ptr<PolicyTask> make_length_task(const ExampleSplit& split,
                                             const PolicyTrainOptions& options) {
  return std::make_unique<LengthTask>(split, options);
}

}  // namespace talon
