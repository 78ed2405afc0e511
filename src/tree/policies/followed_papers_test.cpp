// The policies that follow papers, on cases worked out by hand and on recorded decisions
// (tests/data/golden/methods/README.md).
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "io/codec/zstd.h"
#include "io/json_text.h"
#include "io/test_files.h"
#include "tree/policies/length_predictor.h"
#include "tree/policies/radar_network.h"
#include "tree/policies/test_files.h"
#include "tree/policies/test_machine.h"

namespace talon::followed_papers_test {
namespace {

using test::alone;
using test::chain;
using test::cut;
using test::ln;
using test::Machine;

const std::string kMethods = TALON_TEST_DATA "/golden/methods/";
const std::string kRadar = kMethods + "radar_policy_llama3.safetensors";
const std::string kPredictor = TALON_TEST_DATA "/policies/ada_eagle.safetensors";

Json golden(const std::string& name) { return parse_json(read_zstd(kMethods + name), name); }

/// Draft calls of a round in which call i leaves a beam of these path log-probabilities.
int draft_calls(PolicyState& policy, std::span<const std::vector<float>> beams,
                const PlanContext& context = alone()) {
  const TreePlan plan = policy.plan(context);
  int calls = 1;
  const auto goes_on = [&] {
    const auto beam = static_cast<std::size_t>(calls) - 1;
    return !plan.ask_after.contains(calls) || policy.expand(beams[beam]) > 0;
  };
  while (calls < plan.levels && calls <= static_cast<int>(beams.size()) && goes_on()) ++calls;
  return calls;
}

TEST(Eagle2Policy, KeepsTheLikeliestNodesOfATreeWithinItsLimits) {
  Machine machine(1);
  auto policy = machine.policy("eagle2:topk=2,levels=3,nodes=2");
  DraftTree tree(0);
  tree.add(0, 1, ln(0.6));
  tree.add(0, 2, ln(0.3));
  tree.add(1, 3, ln(0.4));
  const TreePlan plan = cut(*policy, tree);
  EXPECT_EQ(plan.levels, 3);
  EXPECT_EQ(plan.width, 2);
  EXPECT_EQ(tree.tokens(), (std::vector<TokenId>{0, 1, 3}));
}

TEST(StaticPolicy, KeepsSoManyChildrenPerLevelWhateverTheirProbability) {
  Machine machine(1);
  auto policy = machine.policy("static:children=2/1");
  DraftTree tree(0);
  tree.add(0, 1, ln(0.5));
  tree.add(0, 2, ln(0.4));
  tree.add(0, 3, ln(0.05));  // the third child
  tree.add(1, 4, ln(0.2));
  tree.add(1, 5, ln(0.3));  // the likelier child of node 1
  tree.add(2, 6, ln(0.01));
  tree.add(5, 7, ln(0.3));  // too deep
  const TreePlan plan = cut(*policy, tree);
  EXPECT_EQ(plan.levels, 2);
  EXPECT_EQ(plan.width, 2);
  EXPECT_EQ(tree.tokens(), (std::vector<TokenId>{0, 1, 2, 5, 6}));
}

/// A drafter that keeps its likeliest nodes only may have none of the shape's below the first.
TEST(StaticPolicy, WantsWhatADrafterHasBesideItsShape) {
  Machine machine(1);
  auto policy = machine.policy("static:children=1/1/1");
  PlanContext context = alone();
  const TreePlan plan = policy->plan(context);
  EXPECT_GE(plan.nodes, 64);
  EXPECT_EQ(plan.levels, 3);
  context.rows_available = 0;
  EXPECT_EQ(policy->plan(context).nodes, 0);
}

TEST(StaticPolicy, RefusesAShapeThatIsNone) {
  Machine machine(1);
  for (const char* shape : {"", "0", "2//1", "a", "1000"}) {
    EXPECT_THROW(machine.policy(std::string("static:children=") + shape), UsageError) << shape;
  }
}

TEST(DddPolicy, StopsAfterAScheduledCallWhenTheBeamIsUnlikely) {
  Machine machine(1);
  auto policy = machine.policy("ddd:threshold=-0.5,after=2/4,levels=8");
  const std::vector<float> sure = {ln(0.5), ln(0.2)};    // log of 0.7: -0.36
  const std::vector<float> unsure = {ln(0.4), ln(0.2)};  // log of 0.6: -0.51
  EXPECT_EQ(draft_calls(*policy, std::vector(8, sure)), 8);
  EXPECT_EQ(draft_calls(*policy, std::vector(8, unsure)), 2);
  EXPECT_EQ(draft_calls(*policy, std::vector{unsure, sure, unsure, unsure, sure}), 4);
}

TEST(DddPolicy, DecidesAsRecorded) {
  Machine machine(1);
  const Json recorded = golden("ddd.json.zst");
  int stopped = 0, rounds = 0;
  for (const Json& run : recorded.at("runs")) {
    if (run.at("threshold").is_null()) continue;
    std::string after;
    for (const Json& call : run.at("check_after"))
      after += (after.empty() ? "" : "/") + call.dump();
    auto policy = machine.policy("ddd:threshold=" + run.at("threshold").dump() + ",after=" + after);
    for (const Json& round : run.at("rounds")) {
      std::vector<std::vector<float>> beams;
      if (round.contains("beams")) {
        beams = round.at("beams").get<std::vector<std::vector<float>>>();
      } else {
        for (const Json& h : round.at("H")) beams.push_back({h.get<float>()});
      }
      beams.resize(11, {0.0F});  // a call that was not made may not matter
      EXPECT_EQ(draft_calls(*policy, beams), round.at("draft_calls").get<int>());
      stopped += round.at("draft_calls") < 11 ? 1 : 0;
      ++rounds;
    }
  }
  EXPECT_GT(stopped, 100);
  EXPECT_GT(rounds - stopped, 10);
}

TEST(RadarNetwork, GivesTheRecordedLogits) {
  const RadarNetwork weights(open_checkpoint(kRadar));
  RadarRun network(weights);
  const Json recorded = golden("radar_policy.json.zst");
  for (const Json& c : recorded.at("cases")) {
    network.begin_round();
    const auto states = c.at("states").get<std::vector<std::vector<float>>>();
    std::size_t first_stop = states.size();
    for (std::size_t step = 0; step < states.size(); ++step) {
      const double stop = network.stop_chance(states[step]);
      for (std::size_t action = 0; action < 2; ++action) {
        EXPECT_NEAR(network.logits()[action], c.at("logits_float64")[step][action].get<double>(),
                    2e-5);
      }
      EXPECT_NEAR(stop, c.at("p_stop")[step].get<double>(), 1e-5);
      if (stop > 0.5) first_stop = std::min(first_stop, step);
    }
    EXPECT_EQ(first_stop, c.at("argmax_stop_step").get<std::size_t>());
  }
}

TEST(RadarNetwork, DecidesAsTheOfficialRuns) {
  const RadarNetwork weights(open_checkpoint(kRadar));
  RadarRun network(weights);
  Machine machine(1);
  auto policy = machine.policy("radar:draw=0,weights=" + kRadar);
  const Json recorded = golden("radar_runs.json.zst");
  int sampled = 0, likelier = 0;
  for (const Json& run : recorded.at("runs")) {
    for (const Json& round : run.at("rounds")) {
      const auto states = round.at("states").get<std::vector<std::vector<float>>>();
      const int calls = round.at("draft_calls").get<int>();
      network.begin_round();
      int drawn = 1;
      for (std::size_t i = 0; i < states.size(); ++i) {
        const bool stops = round.at("uniforms")[i].get<double>() < network.stop_chance(states[i]);
        if (stops) break;
        ++drawn;
      }
      EXPECT_EQ(drawn, calls);
      ++sampled;
      if (run.at("mode") != "argmax") continue;
      EXPECT_EQ(draft_calls(*policy, states), calls);
      ++likelier;
    }
  }
  EXPECT_GT(sampled, 100);
  EXPECT_GT(likelier, 50);
}

TEST(RadarPolicy, DrawsTheSameDecisionsAtTheSamePosition) {
  const std::vector<float> state = {-0.4F, -2.8F, -2.9F, -4.0F, -4.1F,
                                    -4.5F, -4.6F, -4.7F, -5.1F, -5.9F};
  const std::vector<std::vector<float>> beams(8, state);
  const auto calls = [&](int seed) {
    Machine machine(1);
    auto policy = machine.policy("radar:seed=" + std::to_string(seed) + ",weights=" + kRadar);
    std::vector<int> result;
    for (int position = 0; position < 40; ++position) {
      PlanContext context = alone();
      context.position = position;
      result.push_back(draft_calls(*policy, beams, context));
    }
    return result;
  };
  EXPECT_EQ(calls(1), calls(1));
}

TEST(RadarPolicy, NamesWhatIsMissing) {
  Machine machine(1);
  EXPECT_THROW(machine.policy("radar"), UsageError);
  EXPECT_THROW(machine.policy("radar:weights=" + kPredictor), Error);
  EXPECT_THROW(machine.policy("ada_eagle"), UsageError);
  EXPECT_THROW(machine.policy("ada_eagle:predictor=" + kRadar), Error);
}

TEST(PolicyFiles, ThatBecomeShorterWhileTheyAreReadAreRefused) {
  const test::TemporaryFolder folder;
  const auto cut_while_open = [&](const std::filesystem::path& from) {
    const auto file = folder.path() / from.filename();
    std::filesystem::copy_file(from, file);
    Checkpoint checkpoint = open_checkpoint(file);
    std::filesystem::resize_file(file, 0);
    return checkpoint;
  };
  const Checkpoint radar = cut_while_open(kRadar), predictor = cut_while_open(kPredictor);
  for (const std::string& message :
       {test::message_of([&] { const RadarNetwork network(radar); }),
        test::message_of([&] { const LengthPredictor lengths(predictor); })}) {
    EXPECT_NE(message.find("became shorter"), std::string::npos) << message;
  }
}

/// One input pair, no hidden work: the output is bias alone.
Checkpoint predictor_of(std::vector<float>& values, const std::string& kind, int outputs) {
  Checkpoint file{};
  file.path = "made up";
  file.metadata = {{"kind", kind}, {"k_max", std::to_string(kind == "ordinal" ? outputs : 8)}};
  values.assign(8, 0.0F);
  const auto add = [&](const char* name, std::vector<std::int64_t> shape, std::size_t first) {
    std::size_t count = 1;
    for (const auto size : shape) count *= static_cast<std::size_t>(size);
    file.tensors.push_back({name, StorageType::f32, std::move(shape),
                            std::as_bytes(std::span(values).subspan(first, count))});
  };
  add("in.weight", {1, 2}, 0);
  add("in.bias", {1}, 0);
  for (const char* block : {"blocks.0.", "blocks.1."}) {
    add((std::string(block) + "weight").c_str(), {1, 1}, 0);
    add((std::string(block) + "bias").c_str(), {1}, 0);
  }
  add("out.weight", {outputs, 1}, 2);
  add("out.bias", {outputs}, 5);
  return file;
}

TEST(LengthPredictor, AddsThroughItsLayers) {
  // in: x = silu(1*a + 2*b); blocks: x += silu(0 * x + 0) = x; out: 3 x + 0.5
  std::vector<float> values;
  Checkpoint file = predictor_of(values, "asymmetric", 1);
  std::vector<float> in = {1, 2};
  for (StoredTensor& tensor : file.tensors) {
    if (tensor.name == "in.weight") tensor.bytes = std::as_bytes(std::span(in));
  }
  values[2] = 3;
  values[5] = 0.5F;
  const LengthPredictor predictor(file);
  LengthPredictor::Scratch scratch;
  const float x = 0.8F / (1 + std::exp(-0.8F));
  EXPECT_NEAR(predictor.predict(std::vector<float>{0.2F, 0.3F}, scratch)[0], 3 * x + 0.5F, 1e-6);
}

TEST(LengthPredictor, OrdinalChancesNeverRise) {
  std::vector<float> values;
  Checkpoint file = predictor_of(values, "ordinal", 3);
  values[5] = 1.0F;
  values[6] = 2.0F;
  values[7] = -1.0F;
  const LengthPredictor predictor(file);
  LengthPredictor::Scratch scratch;
  const auto chances = predictor.predict(std::vector<float>{0.0F, 0.0F}, scratch);
  EXPECT_NEAR(chances[0], 0.731, 1e-3);
  EXPECT_NEAR(chances[1], 0.731, 1e-3);
  EXPECT_NEAR(chances[2], 0.269, 1e-3);
}

TEST(AdaEaglePolicy, PlansAChainOfThePredictedLength) {
  Machine machine(0.1, 1);
  auto pure = machine.policy("ada_eagle:least=0.5,predictor=" + kPredictor);
  const LengthPredictor predictor(open_checkpoint(kPredictor));
  LengthPredictor::Scratch scratch;
  std::vector<float> feature(128);
  bool plain = false, drafts = false;
  for (int trial = 0; trial < 200; ++trial) {
    for (std::size_t i = 0; i < feature.size(); ++i)
      feature[i] = static_cast<float>(2 * std::sin(trial * 1.7 + static_cast<double>(i)));
    int length = 0;
    for (const float chance : predictor.predict(feature, scratch)) length += chance >= 0.5F ? 1 : 0;
    PlanContext context = alone();
    context.feature = feature;
    const TreePlan plan = pure->plan(context);
    EXPECT_EQ(plan.levels, length);
    EXPECT_EQ(plan.width, length > 0 ? 1 : 0);
    plain = plain || length == 0;
    drafts = drafts || length > 1;
  }
  EXPECT_TRUE(drafts);
}

TEST(AdaEaglePolicy, TheHybridGoesOnWhileTheDraftIsLikely) {
  Machine machine(0.1, 1);
  // No feature: the length is not limited by the predictor, so only the threshold can be seen with
  // least=1, which predicts nothing.
  auto hybrid = machine.policy("ada_eagle:hybrid=1,least=1,threshold=-0.6,predictor=" + kPredictor);
  const std::vector<float> feature(128, 0.0F);
  PlanContext context = alone();
  context.feature = feature;
  const std::vector<std::vector<float>> beams = {{-0.2F}, {-0.5F}, {-0.59F}, {-0.61F}, {-0.7F}};
  EXPECT_EQ(draft_calls(*hybrid, beams, context), 4);
}

TEST(AdaEaglePolicy, RefusesAPredictorOfAnotherModel) {
  const std::string text = "ada_eagle:predictor=" + kPredictor;
  EXPECT_NO_THROW(make_policy(text, {.hidden = 64}));
  EXPECT_THROW(make_policy(text, {.hidden = 32}), Error);
}

TEST(TreePolicy, ReadsItsFilesOnceForAllSequences) {
  const auto folder = std::filesystem::path(testing::TempDir());
  for (const auto& [name, option, source] :
       {std::tuple{"ada_eagle", "predictor", kPredictor}, {"radar", "weights", kRadar}}) {
    const auto file = folder / (std::string(name) + ".safetensors");
    std::filesystem::copy_file(source, file, std::filesystem::copy_options::overwrite_existing);
    const auto policy = make_policy(std::string(name) + ":" + option + "=" + file.string());
    std::filesystem::remove(file);
    Machine machine(1);
    const auto state = policy->start(machine.drafter, machine.costs);
    EXPECT_GT(state->plan(alone()).nodes, 0) << name;
    EXPECT_GE(state->expand(std::vector<float>{-0.1F}), 0) << name;
  }
}

/// A round of an image policy that begins at answer position `at`, of whose tree `accepted` levels
/// were accepted. Returns its depth and width.
std::pair<int, int> image_round(PolicyState& policy, int at, int accepted) {
  PlanContext context = alone();
  context.answer_position = at;
  const TreePlan plan = policy.plan(context);
  DraftTree tree = chain(plan.levels, 0.5);
  std::vector<NodeId> path;
  for (NodeId node = 0; node <= accepted; ++node) path.push_back(node);
  const std::vector<TokenId> emitted(path.size(), 1);
  RoundOutcome outcome;
  outcome.tree = &tree;
  outcome.accepted = path;
  outcome.emitted = emitted;
  policy.learn(outcome);
  return {plan.levels, plan.width};
}

using Shape = std::pair<int, int>;

TEST(AdjacencyPolicy, GoesHalfWayDeeperAndNarrowerAfterSuccess) {
  Machine machine(1);
  auto policy = machine.policy("adjacency:grid=8");
  EXPECT_EQ(image_round(*policy, 0, 3), (Shape{5, 10}));  // 3 of 5: well
  EXPECT_EQ(image_round(*policy, 4, 1), (Shape{7, 6}));   // 1 of 7: badly
  EXPECT_EQ(image_round(*policy, 6, 0), (Shape{4, 11}));
}

TEST(AdjacencyPolicy, ARowBeginsFromTheTokenAbove) {
  Machine machine(1);
  auto policy = machine.policy("adjacency:grid=2");
  image_round(*policy, 0, 0);  // position 0: badly
  image_round(*policy, 1, 0);
  EXPECT_EQ(image_round(*policy, 2, 0), (Shape{3, 13}));  // from position 0, (5, 10)
  auto above = machine.policy("adjacency:grid=2,neighbour=above");
  image_round(*above, 0, 4);                            // positions 0 to 4 inherit
  EXPECT_EQ(image_round(*above, 5, 0), (Shape{7, 6}));  // from position 3
}

TEST(AdjacencyPolicy, TakesTheRowOfTheModelsPictures) {
  Machine machine(1);
  const auto shapes = [&](const char* text, const PolicyContext& context) {
    const auto policy = make_policy(text, context);
    const auto state = policy->start(machine.drafter, machine.costs);
    image_round(*state, 0, 0);
    image_round(*state, 1, 0);
    return image_round(*state, 2, 0);
  };
  const Shape of_row = shapes("adjacency:grid=2", {});
  EXPECT_EQ(shapes("adjacency", {.picture_row = 2}), of_row);
  EXPECT_NE(shapes("adjacency", {}), of_row);
  EXPECT_EQ(shapes("adjacency:grid=2", {.picture_row = 7}), of_row);
}

TEST(AdjacencyPolicy, WithoutNeighboursEveryTreeIsTheFirst) {
  Machine machine(1);
  auto policy = machine.policy("adjacency:neighbour=none,levels=4,topk=3");
  for (int at = 0; at < 5; ++at) EXPECT_EQ(image_round(*policy, at, 0), (Shape{4, 3}));
}

}  // namespace
}  // namespace talon::followed_papers_test
