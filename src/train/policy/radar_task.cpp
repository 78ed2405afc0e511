#include "train/policy/radar_task.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "train/policy/export_policy.h"
#include "train/policy/policy_loss.h"
#include "train/policy/policy_network.h"

namespace talon {
namespace {

using torch::Tensor;

/// Weight of the squared log-odds of decisions: it keeps them from becoming certain, where
/// gradients vanish, before the network tells beams apart.
constexpr double kPull = 1e-3;

/// Rounds: what each level's end would bring, and the beams on the way.
struct RoundData {
  Tensor states;              // [rounds, levels - 1, 10]
  Tensor decides;             // [rounds, levels - 1]
  Tensor tokens, ms, reward;  // [rounds, levels]; behind the draft's end as at it
};

double ratio_reward(const PolicyTrainOptions& options, const RoundCosts& costs, int continued,
                    double tokens, double ms) {
  const double beta = 10 * costs.pass_ms;
  double price = 0, discount = 1;
  for (int i = 0; i < continued; ++i) {
    price += discount * options.alpha;
    discount *= options.gamma;
  }
  return discount * beta * tokens / ms - price;
}

std::vector<const DraftExample*> drafted(const std::vector<DraftExample>& examples) {
  std::vector<const DraftExample*> rounds;
  for (const DraftExample& example : examples) {
    if (!example.stops.empty()) rounds.push_back(&example);
  }
  return rounds;
}

int deepest(const ExampleSplit& split) {
  std::size_t levels = 0, states = 0;
  for (const DraftExample& example : split.train) {
    levels = std::max(levels, example.stops.size());
    states = std::max(states, example.states.size());
  }
  if (levels < 2 || states < 1 || drafted(split.held_out).empty()) {
    fail(
        "train policy: radar: expected drafts of two levels or more by a draft head that grows "
        "them one by one (eagle, eagle2, eagle3), found {} levels and {} decisions",
        levels, states);
  }
  return static_cast<int>(levels);
}

RoundData data_of(const std::vector<DraftExample>& examples, int levels, const RoundCosts& costs,
                  const PolicyTrainOptions& options) {
  const auto rounds = drafted(examples);
  const auto rows = static_cast<std::int64_t>(rounds.size());
  constexpr auto kState = static_cast<std::int64_t>(RadarNetwork::kState);
  RoundData data{at::zeros({rows, levels - 1, kState}), at::zeros({rows, levels - 1}),
                 at::zeros({rows, levels}), at::zeros({rows, levels}), at::zeros({rows, levels})};
  auto states = data.states.accessor<float, 3>();
  auto decides = data.decides.accessor<float, 2>();
  auto tokens = data.tokens.accessor<float, 2>();
  auto ms = data.ms.accessor<float, 2>();
  auto reward = data.reward.accessor<float, 2>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const DraftExample& round = *rounds[static_cast<std::size_t>(row)];
    const int last = static_cast<int>(round.stops.size()) - 1;
    for (int level = 0; level < levels; ++level) {
      const int end = std::min(level, last);
      const StopOutcome& stop = round.stops[static_cast<std::size_t>(end)];
      const double brought = stop.accepted + 1, cost = costs.round_ms(end + 1, stop.nodes);
      tokens[row][level] = static_cast<float>(brought);
      ms[row][level] = static_cast<float>(cost);
      reward[row][level] = static_cast<float>(ratio_reward(options, costs, end, brought, cost));
    }
    const int decisions = std::min({levels - 1, last, static_cast<int>(round.states.size())});
    for (int level = 0; level < decisions; ++level) {
      decides[row][level] = 1;
      const BeamState& state = round.states[static_cast<std::size_t>(level)];
      for (std::int64_t i = 0; i < kState; ++i)
        states[row][level][i] = state[static_cast<std::size_t>(i)];
    }
  }
  return data;
}

RoundData rows_of(const RoundData& all, const Tensor& rows) {
  const auto part = [&](const Tensor& x) { return x.index_select(0, rows); };
  return {part(all.states), part(all.decides), part(all.tokens), part(all.ms), part(all.reward)};
}

double rate_of(const Tensor& law, const RoundData& data) {
  return -throughput_loss(law, data.tokens, data.ms).item<double>();
}

class RadarTask : public PolicyTask {
 public:
  RadarTask(const ExampleSplit& split, const RoundCosts& costs, const PolicyTrainOptions& options)
      : options_(options),
        levels_(deepest(split)),
        train_(data_of(split.train, levels_, costs, options)),
        held_out_(data_of(split.held_out, levels_, costs, options)),
        parameters_(radar_parameter_shapes(options.width_used()), torch::kFloat, torch::kFloat,
                    torch::kCPU) {
    set_random_values(parameters_);
    parameters_.set("mlp.3.bias", torch::tensor({-1.0, 1.0}));  // at first it goes on
    for (int level = 1; level < levels_; ++level) {
      const auto value = [&](int at) {
        return loss(constant_law(train_, at), train_).item<double>();
      };
      if (value(level) < value(best_level_)) best_level_ = level;
    }
    unit_ =
        std::max(std::abs(loss(constant_law(train_, best_level_), train_).item<double>()), 1e-6);
  }

  FitTask fit_task() override {
    return {parameters_, train_.tokens.size(0),
            [this](const Tensor& rows) {
              const RoundData batch = rows_of(train_, rows);
              const Tensor logit = radar_stop_logit(parameters_, batch.states, options_.dropout);
              return loss(stop_law(logit, batch.decides), batch) +
                     kPull * (logit.square() * batch.decides).mean();
            },
            [this] { return measure(); }};
  }

  void write(const std::filesystem::path& file) const override {
    export_policy(file, parameters_, {{"levels", std::to_string(levels_)}});
  }

 private:
  Tensor constant_law(const RoundData& data, int level) const {
    Tensor law = at::zeros_like(data.tokens);
    law.select(1, level).fill_(1);
    return law;
  }
  Tensor loss(const Tensor& law, const RoundData& data) const {
    const Tensor plain = options_.reward == "ratio" ? reward_loss(law, data.reward)
                                                    : throughput_loss(law, data.tokens, data.ms);
    return plain / unit_;
  }

  Figures measure() const {
    const RoundData& data = held_out_;
    const Tensor logit = radar_stop_logit(parameters_, data.states, 0);
    const Tensor law = stop_law(logit, data.decides);
    const Tensor likelier = stop_law(at::sign(logit) * 1e4, data.decides);
    const Tensor constant = constant_law(data, best_level_);
    const Tensor number = at::arange(1, levels_ + 1, law.options());
    return {{"loss", loss(law, data).item<double>()},
            {"rate", rate_of(law, data)},
            {"likelier rate", rate_of(likelier, data)},
            {"levels", (law * number).sum(1).mean().item<double>()},
            {"constant loss", loss(constant, data).item<double>()},
            {"constant rate", rate_of(constant, data)},
            {"constant levels", best_level_ + 1.0}};
  }

  PolicyTrainOptions options_;
  int levels_;
  RoundData train_, held_out_;
  ParameterStore parameters_;
  int best_level_ = 0;
  double unit_ = 1;  // of the loss: what the best constant has
};

}  // namespace

std::unique_ptr<PolicyTask> make_radar_task(const ExampleSplit& split, const RoundCosts& costs,
                                            const PolicyTrainOptions& options) {
  return std::make_unique<RadarTask>(split, costs, options);
}

}  // namespace talon
