#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/conformance.h"

namespace talon::conformance::conformance_experts_test {
namespace {

class ExpertConformance : public Conformance {};

constexpr int kExperts = 12, kHidden = 64, kWidth = 40;

/// A layer of experts with random weights on one device.
class Layer {
 public:
  Layer(Device& device, StorageType type) : device_(device) {
    for (int i = 0; i < kExperts; ++i) {
      const auto seed = static_cast<unsigned>(10 * i);
      load(random_matrix(type, kWidth, kHidden, seed));
      load(random_matrix(type, kWidth, kHidden, seed + 1));
      load(random_matrix(StorageType::bf16, kHidden, kWidth, seed + 2));
      const std::size_t last = weights_.size();
      experts_.push_back(
          {weights_[last - 3].get(), weights_[last - 2].get(), weights_[last - 1].get()});
    }
    router_ = device->load_weight(router_matrix_.stored, WeightLayout::f32);
    gate_bias_ = device.random(kExperts, kWidth, 3);
    up_bias_ = device.random(kExperts, kWidth, 4);
    down_bias_ = device.random(kExperts, kHidden, 5);
  }

  RouteArgs route(const View& x, int k) {
    const View scores = device_.zeros(x.rows, kExperts);
    const Projection to[] = {{router_.get(), scores}};
    device_->linear({.input = x, .outputs = to});
    RouteArgs args;
    args.scores = scores;
    args.renormalize = true;
    args.ids = device_.indices(x.rows * k);
    args.weights = device_.zeros(x.rows, k);
    return args;
  }
  View run(const View& x, int k, InputTransform gate = InputTransform::silu_gate,
           bool biases = false, bool weigh_input = false) {
    const RouteArgs choice = route(x, k);
    device_->route(choice);
    ExpertArgs args;
    args.input = x;
    args.ids = choice.ids;
    args.weights = choice.weights;
    std::vector<ExpertWeights> experts = experts_;
    if (!is_gate(gate)) {
      for (ExpertWeights& expert : experts) expert.gate = nullptr;
    }
    args.experts = experts;
    args.gate = gate;
    args.weigh_input = weigh_input;
    args.out = device_.zeros(x.rows, kHidden);
    if (biases) {
      args.gate_bias = gate_bias_;
      args.up_bias = up_bias_;
      args.down_bias = down_bias_;
    }
    device_->experts(args);
    return args.out;
  }

 private:
  void load(const TestMatrix& matrix) {
    weights_.push_back(device_->load_weight(matrix.stored, WeightLayout::as_stored));
  }

  Device& device_;
  std::vector<std::unique_ptr<Weight>> weights_;
  std::vector<ExpertWeights> experts_;
  TestMatrix router_matrix_ = random_matrix(StorageType::f32, kExperts, kHidden, 99);
  std::unique_ptr<Weight> router_;
  View gate_bias_, up_bias_, down_bias_;
};

TEST_P(ExpertConformance, ExpertsOfEveryKindOfLayer) {
  for (const StorageType type : {StorageType::f32, StorageType::bf16, StorageType::q8_0}) {
    const double tolerance = std::max(Tolerance::linear(type, GetParam().activations),
                                      Tolerance::linear(StorageType::bf16, GetParam().activations));
    check(4 * tolerance, std::string(name_of(type)), [&](Device& device) {
      Layer layer(device, type);
      for (const int rows : {1, 2, 9, 40}) {
        const View x = device.random(rows, kHidden, 7);
        layer.run(x, 3);
        layer.run(x, 1, InputTransform::gelu_tanh_gate, false, true);
        layer.run(x, 4, InputTransform::clamped_swiglu, true);
        layer.run(x, 2, InputTransform::relu_squared, true);
      }
    });
  }
}

TEST_P(ExpertConformance, ARowHasTheSameBytesWhoeverSharesItsExperts) {
  constexpr int kRows = 33;
  for (const StorageType type : {StorageType::f32, StorageType::bf16, StorageType::q4_0}) {
    Device one = plain(1), two = plain(2);
    Layer whole(one, type), parts(two, type);
    const std::vector<float> values = random_rows(kRows, kHidden, 8);
    const View all = one.put(values, kRows, kHidden), cut = two.put(values, kRows, kHidden);
    const std::pair<InputTransform, bool> kinds[] = {{InputTransform::silu_gate, false},
                                                     {InputTransform::silu_gate, true},
                                                     {InputTransform::relu_squared, false}};
    for (const auto& [gate, weigh_input] : kinds) {
      const auto run = [&, function = gate, weighs = weigh_input](Layer& layer, const View& x) {
        return layer.run(x, 3, function, true, weighs);
      };
      const std::vector<float> expected = one.get(run(whole, all));
      for (int first = 0, count = 1; first < kRows; first += count, count = count % 4 + 1) {
        count = std::min(count, kRows - first);
        const std::vector<float> found = two.get(run(parts, cut.row_range(first, count)));
        const auto begin = static_cast<std::size_t>(first) * kHidden;
        EXPECT_TRUE(same_bytes(found, std::span(expected).subspan(begin, found.size())))
            << name_of(type) << " row " << first;
      }
    }
  }
}

TEST_P(ExpertConformance, TheChoiceIsATotalOrderAndListedByNumber) {
  Device device = plain();
  const std::vector<float> scores = {1, 5, 5, 2, 5, 0, NAN, 2,  // ties go to the smaller number
                                     9, 1, 1, 1, 8, 7, 1,   1};
  RouteArgs args;
  args.scores = device.put(scores, 2, 8);
  args.renormalize = true;
  args.scale = 2;
  args.ids = device.indices(6);
  args.weights = device.zeros(2, 3);
  args.score = RouteArgs::Score::sigmoid;
  device->route(args);
  EXPECT_EQ(device.get(args.ids), (std::vector<std::int32_t>{1, 2, 4, 0, 4, 5}));
  const std::vector<float> weights = device.get(args.weights);
  EXPECT_NEAR(weights[0] + weights[1] + weights[2], 2, 1e-6);
  EXPECT_EQ(weights[0], weights[2]);

  // Of four groups of two the best two by the sum of their scores: 4 and 5, then 0 and 1.
  args.groups = 4;
  args.groups_used = 2;
  args.group_by_two = true;
  device->route(args);
  EXPECT_EQ((std::vector<std::int32_t>{device.get(args.ids)[3], device.get(args.ids)[4],
                                       device.get(args.ids)[5]}),
            (std::vector<std::int32_t>{0, 4, 5}));

  // Where all groups are in use they may hold one each.
  args.groups = args.groups_used = 8;
  device->route(args);
  EXPECT_EQ(device.get(args.ids), (std::vector<std::int32_t>{1, 2, 4, 0, 4, 5}));

  // A bias changes the choice and not the weights.
  const std::vector<float> bias = {0, 0, 0, 9, 0, 0, 0, 0};
  args.groups = args.groups_used = 1;
  args.bias = device.put(bias, 1, 8);
  device->route(args);
  EXPECT_EQ(device.get(args.ids)[2], 3);
}

/// 1.99 is near 2 and 1.95 is not; of three that are alike the second has one beside it.
TEST_P(ExpertConformance, NearBestWeighsAmongWhatIsNear) {
  Device device = plain();
  const std::vector<float> scores = {0,    1.99F,  1.5F, 2,  1.95F, -3, -1, 1,  5,  1,  0,
                                     0.5F, 0.99F,  -5,   -9, 0.9F,  -1, -2, -3, -4, -5, -6,
                                     -7,   -1.01F, 7,    7,  7,     1,  1,  1,  1,  1};
  RouteArgs args;
  args.scores = device.put(scores, 4, 8);
  args.score = RouteArgs::Score::near_best;
  args.jitter = 0.01F;
  args.ids = device.indices(8);
  args.weights = device.zeros(4, 2);
  device->route(args);
  EXPECT_EQ(device.get(args.ids), (std::vector<std::int32_t>{1, 3, 0, 1, 0, 7, 0, 1}));
  const std::vector<float> weights = device.get(args.weights);
  const double of_two = 1 / (1 + std::exp(-0.01));
  const double expected[] = {1, of_two, 1, of_two, of_two, 1, 1.0 / 3, 0.5};
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_NEAR(weights[i], expected[i], 1e-6) << i;
  }
}

TEST_P(ExpertConformance, AFirstUseIsThatOfTheFirstRowThatGoesToAnExpert) {
  Device device = plain();
  const Indices ids = device.put({1, 4, 7, 0, 4, 9, 0, 1, 7, 2, 4, 8});
  const Indices counts = device.put({10, 20, 30, 40, 50});
  device->count_first_uses(ids, 10, counts.range(0, 4));
  EXPECT_EQ(device.get(counts), (std::vector<std::int32_t>{13, 22, 30, 42, 50}));
  device->count_first_uses(ids.range(3, 9), 10, counts.range(2, 3));  // of a call of its own
  EXPECT_EQ(device.get(counts), (std::vector<std::int32_t>{13, 22, 33, 44, 52}));

  check(4 * Tolerance::kFloat32, "count_first_uses", [](Device& checked) {
    Layer layer(checked, StorageType::f32);
    const RouteArgs choice = layer.route(checked.random(40, kHidden, 7), 3);
    checked->route(choice);
    const Indices each = checked.indices(40);
    for (int layers = 0; layers < 2; ++layers)
      checked->count_first_uses(choice.ids, kExperts, each);
    const std::vector<std::int32_t> found = checked.get(each);
    EXPECT_EQ(found.front(), 2 * 3);
    EXPECT_LE(std::accumulate(found.begin(), found.end(), 0), 2 * kExperts);
  });
}

TEST_P(ExpertConformance, SeveralLinearsAtOnceGiveTheBytesOfEach) {
  for (const StorageType type : {StorageType::f32, StorageType::bf16, StorageType::q6_k}) {
    Device device = plain(2);
    std::vector<std::unique_ptr<Weight>> weights;
    std::vector<Projection> together, alone;
    std::vector<LinearArgs> calls;
    for (unsigned i = 0; i < 9; ++i) {
      const int outputs = 16 * static_cast<int>(i) + 5, rows = 1 + static_cast<int>(i) % 5;
      const TestMatrix matrix = random_matrix(type, outputs, 256, i);
      weights.push_back(device->load_weight(matrix.stored, WeightLayout::as_stored));
      together.push_back({weights.back().get(), device.zeros(rows, outputs)});
      alone.push_back({weights.back().get(), device.zeros(rows, outputs)});
      calls.push_back({.input = device.random(rows, 256, 50 + i), .outputs = {}});
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      calls[i].outputs = {&alone[i], 1};
      device->linear(calls[i]);
      calls[i].outputs = {&together[i], 1};
    }
    device->linear_all(calls);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      EXPECT_TRUE(same_bytes(device.get(together[i].out), device.get(alone[i].out))) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ExpertConformance, testing::ValuesIn(backend_cases()),
                         case_name);

}  // namespace
}  // namespace talon::conformance::conformance_experts_test
