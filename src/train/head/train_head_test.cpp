#include "train/head/train_head.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "model/target.h"
#include "train/head/export_head.h"
#include "train/head/head_loss.h"
#include "train/head/math/exchange.h"
#include "train/head/target/target_weights.h"
#include "train/head/test_training.h"

namespace talon::train_head_test {
namespace {

using test::bytes_of;
using test::data_model;
using test::DataFolder;
using test::failure_of;
using test::kTarget;
using test::quiet;
using test::small_run;
using test::tau_of;
using test::train;
using test::write_stories;

TEST(MeasureHead, ManyAnswersAtOnceHaveTheWholeTreesOfEach) {
  const std::string drafter =
      "eagle3:topk=8,levels=6,nodes=15,head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head";
  HeadMeasure measure{.prompts = {test::encode_letters("Once")}, .end_tokens = {2}, .max_new = 12};
  const double alone = measure_acceptance(data_model().model, measure, drafter);
  EXPECT_GT(alone, 1.1);
  measure.prompts.resize(90, measure.prompts.front());
  EXPECT_EQ(measure_acceptance(data_model().model, measure, drafter), alone);
}

TEST(MeasureHead, EndsWhenItIsToStop) {
  HeadMeasure measure{.prompts = {test::encode_letters("Once")}, .end_tokens = {2}, .max_new = 12};
  StopFlag stop;
  stop.request();
  measure.stop = &stop;
  EXPECT_EQ(measure_acceptance(data_model().model, measure,
                               "eagle3:topk=8,levels=6,nodes=15,head=" TALON_TEST_DATA
                               "/golden/stories260k/eagle3_head"),
            1)
      << "no check of the target";
}

struct KindCase {
  const char* kind;
  const char* drafter;
};
void PrintTo(const KindCase& one, std::ostream* out) { *out << one.kind; }

class TinyHead : public ::testing::TestWithParam<KindCase> {};

TEST_P(TinyHead, OfStories260kRaisesTau) {
  DataFolder data, before, after;
  write_stories(data.path(), 60);
  HeadTrainOptions options = small_run(data, before);
  options.kind = GetParam().kind;
  options.epochs = 0.001;  // one step
  const double untrained = tau_of(train(options).head, GetParam().drafter);
  options.out = after.path().string();
  options.epochs = 25;
  const double trained = tau_of(train(options).head, GetParam().drafter);
  RecordProperty("untrained", std::to_string(untrained));
  RecordProperty("trained", std::to_string(trained));
  EXPECT_GT(trained, untrained + 0.3) << untrained << " to " << trained;
}

INSTANTIATE_TEST_SUITE_P(Kinds, TinyHead,
                         ::testing::Values(KindCase{"eagle3", "eagle3:topk=1,levels=4,nodes=4"},
                                           KindCase{"eagle", "eagle2:topk=1,levels=4,nodes=4"},
                                           KindCase{"medusa", "medusa:nodes=8"},
                                           KindCase{"dflash", "dflash:topk=1,levels=4"},
                                           KindCase{"peagle", "peagle:topk=1,levels=4"},
                                           KindCase{"draft", "draft:topk=1,levels=4,nodes=4"}),
                         [](const auto& test) { return std::string(test.param.kind); });

TEST(TrainHead, FewerNeuronsOrMoreBlocksTrainAndLoadAsWell) {
  DataFolder data, out;
  write_stories(data.path(), 60);
  HeadTrainOptions options = small_run(data, out);
  options.epochs = 25;
  options.intermediate = 64;
  const auto config_of = [](const HeadTrainResult& result) {
    return Json::parse(bytes_of(result.head / "config.json"));
  };
  const HeadTrainResult small = train(options);
  EXPECT_EQ(config_of(small)["intermediate_size"], 64);
  EXPECT_GT(tau_of(small.head, "eagle3:topk=1,levels=4,nodes=4"), 1.5);

  DataFolder blocks;
  options.out = blocks.path().string();
  options.kind = "medusa";
  options.intermediate = 0;
  options.medusa_layers = 2;
  const HeadTrainResult deep = train(options);
  EXPECT_EQ(config_of(deep)["medusa_num_layers"], 2);
  EXPECT_GT(tau_of(deep.head, "medusa:nodes=8"), 1.5);
}

/// The initial values of an EAGLE-3 head with so many neurons.
ParameterStore initial_values(int neurons) {
  const Checkpoint target = open_checkpoint(kTarget);
  const ModelConfig config = read_model_config(target);
  const FeatureScales scales{.taps = {1, 1, 1}, .last = 1};
  HeadShape shape = head_shape(HeadKind::eagle3, config, scales);
  shape.intermediate = neurons;
  ParameterStore parameters(parameter_shapes(shape), torch::kFloat, torch::kFloat, torch::kCPU);
  set_initial_values(parameters, shape, target, config, scales, /*seed=*/1);
  return parameters;
}

TEST(TrainHead, FewerNeuronsAreTheStrongestOfTheTargetsInItsOrder) {
  constexpr int kAll = 172, kKept = 64;
  const ParameterStore all = initial_values(kAll), kept = initial_values(kKept);
  const auto gates = all["gate_up"].value.chunk(2, 0),
             kept_gates = kept["gate_up"].value.chunk(2, 0);
  const torch::Tensor strength =
      gates[0].square().sum(1) * gates[1].square().sum(1) * all["down"].value.square().sum(0);
  std::vector<bool> is_kept(kAll);
  double weakest_kept = 1e30, strongest_left = 0;
  int from = 0;
  for (int i = 0; i < kKept; ++i, ++from) {
    while (from < kAll && !kept_gates[0][i].equal(gates[0][from])) ++from;
    ASSERT_LT(from, kAll) << "neuron " << i << " is not one of the target's after the one before";
    EXPECT_TRUE(kept_gates[1][i].equal(gates[1][from]));
    EXPECT_TRUE(kept["down"].value.select(1, i).equal(all["down"].value.select(1, from)));
    is_kept[static_cast<std::size_t>(from)] = true;
  }
  for (int i = 0; i < kAll; ++i) {
    const double here = strength[i].item<double>();
    if (is_kept[static_cast<std::size_t>(i)]) {
      weakest_kept = std::min(weakest_kept, here);
    } else {
      strongest_left = std::max(strongest_left, here);
    }
  }
  EXPECT_GE(weakest_kept, strongest_left);
}

TEST(TrainHead, MoreNeuronsThanTheTargetHasAreRefused) {
  DataFolder data, out;
  HeadTrainOptions options = small_run(data, out);
  options.intermediate = 173;
  write_stories(data.path(), 6);
  EXPECT_NE(failure_of(options).find("the target's 172, got 173"), std::string::npos);
}

TEST(TrainHead, ProcessesThatMayEndApartAreRefused) {
  DataFolder data, out;
  HeadTrainOptions options = small_run(data, out);
  options.ranks = 2;
  options.patience = 1;
  write_stories(data.path(), 6);
  EXPECT_NE(failure_of(options).find("--patience"), std::string::npos) << failure_of(options);
}

TEST(TrainHead, AProcessBeyondTheirNumberIsRefused) {
  DataFolder data, out;
  write_stories(data.path(), 6);
  HeadTrainOptions options = small_run(data, out);
  options.rank = 1;
  EXPECT_NE(failure_of(options).find("--rank: expected less than --ranks, 1, got 1"),
            std::string::npos)
      << failure_of(options);
}

/// The law that a head is to learn is the one that the engine draws with.
TEST(TargetTables, GiveTheLogitsOfTheEngine) {
  test::TestModel target(kTarget, make_cpu_backend({.threads = 1}));
  ModelConfig& config = target.model.config;
  config.logit_scale = 0.125F;
  config.logit_cap = 0.75F;
  KvCache cache(*target.backend, kv_shape(config, 4));
  const std::vector<TokenId> tokens = test::encode_letters("Once");
  const int rows = static_cast<int>(tokens.size());
  Target engine(target.model, cache, rows, {{FeatureTap::kFinalNorm}});
  KvSequence sequence = cache.start(tokens, false);
  ASSERT_TRUE(sequence.reserve(rows));
  const SequenceRows whole{&sequence, tokens, {}, SequenceRows::Logits::all};
  const auto result = engine.forward(std::span(&whole, 1));
  const auto downloaded = [&](const View& view) {
    const torch::Tensor values = torch::empty({view.rows, view.cols});
    target.backend->download(
        view, std::span(values.data_ptr<float>(), static_cast<std::size_t>(values.numel())));
    return values;
  };
  const TargetTables tables =
      read_target_tables(target.checkpoint, config, 64, torch::kFloat, torch::kCPU);
  const torch::Tensor expected = downloaded(result.logits);
  const torch::Tensor found = target_logits(tables, downloaded(result.features), tables.output);
  EXPECT_LT((found - expected).abs().max().item<double>(), 0.02);
  EXPECT_GT(expected.abs().max().item<double>(), 0.5) << "scaled and capped";
  EXPECT_LE(expected.abs().max().item<double>(), 0.75);
}

TEST(TargetTables, NormsThatAFileHasLessOneAreWhole) {
  const Checkpoint target = open_checkpoint(kTarget);
  ModelConfig config = read_model_config(target);
  const FeatureScales scales{.taps = {1, 1, 1}, .last = 1};
  const HeadShape shape = head_shape(HeadKind::eagle3, config, scales);
  const auto norm = [&] {
    ParameterStore parameters(parameter_shapes(shape), torch::kFloat, torch::kFloat, torch::kCPU);
    set_initial_values(parameters, shape, target, config, scales, /*seed=*/1);
    return parameters["output_norm"].value.clone();
  };
  const torch::Tensor plain = norm();
  config.forms.norm_plus_one = true;
  EXPECT_TRUE(norm().equal(plain + 1));
}

TargetTables tables_of(const ModelConfig& config) {
  return read_target_tables(open_checkpoint(kTarget), config, 8, torch::kFloat, torch::kCPU);
}

/// Writes a head for a target of that configuration.
void export_for(const ModelConfig& config, const DataFolder& out) {
  const FeatureScales scales{.taps = {1, 1, 1}, .last = 1};
  const HeadShape shape = head_shape(HeadKind::eagle, config, scales);
  const ParameterStore parameters(parameter_shapes(shape), torch::kFloat, torch::kFloat,
                                  torch::kCPU);
  const TargetTables tables = tables_of(config);
  export_head({shape, parameters, parameters.values(), tables, {}, config, 1, Json::object()},
              out.path());
}

/// A head that drafts with the target's own rows would draft without its scale.
TEST(TargetTables, RowsOfATargetThatScalesItsLogitsAreExportedScaled) {
  ModelConfig config = read_model_config(open_checkpoint(kTarget));
  const auto rows = [&] {
    const DataFolder out;
    export_for(config, out);
    const Checkpoint head = open_checkpoint(out.path());
    const StoredTensor* stored = head.find("lm_head.weight");
    if (!stored) return torch::Tensor();
    const torch::Tensor values = torch::empty(stored->shape, torch::kHalf);
    std::memcpy(values.data_ptr(), stored->bytes.data(), stored->bytes.size());
    return values;
  };
  EXPECT_FALSE(rows().defined()) << "the target's own";
  config.logit_scale = 0.125F;
  const torch::Tensor scaled = rows();
  ASSERT_TRUE(scaled.defined());
  const TargetTables tables = tables_of(config);
  EXPECT_TRUE(scaled.equal(tables.output.to(torch::kHalf)));
  config.logit_scale = 1;
  EXPECT_TRUE(at::allclose(tables.output * 8, tables_of(config).output));
}

/// Nor does training cap what the head computes.
TEST(TargetTables, HeadsOfATargetThatCapsItsLogitsSayThatTheyDoNot) {
  ModelConfig config = read_model_config(open_checkpoint(kTarget));
  const auto said = [&] {
    const DataFolder out;
    export_for(config, out);
    return open_checkpoint(out.path()).metadata.value("final_logit_softcapping", Json());
  };
  EXPECT_EQ(said(), Json());
  config.logit_cap = 0.75F;
  EXPECT_EQ(said(), Json(0));
}

TEST(TrainHead, StoppedAndStartedAgainItGivesTheSameHeadBitForBit) {
  DataFolder data, straight, stopped;
  write_stories(data.path(), 12);
  HeadTrainOptions options = small_run(data, straight);
  options.epochs = 3;
  train(options);
  options.out = stopped.path().string();
  StopFlag stop;
  int lines = 0;
  HeadTrainHooks hooks;
  hooks.log = [&](std::string_view) {
    if (++lines == 3) stop.request();
  };
  hooks.stop = &stop;
  EXPECT_TRUE(train(options, hooks).head.empty());
  EXPECT_FALSE(train(options).head.empty());
  EXPECT_EQ(bytes_of(straight.path() / "head/model.safetensors"),
            bytes_of(stopped.path() / "head/model.safetensors"));
}

TEST(TrainHead, CheckpointOfOtherSettingsIsRefusedByTheirName) {
  DataFolder data, out;
  write_stories(data.path(), 6);
  HeadTrainOptions options = small_run(data, out);
  EXPECT_EQ(failure_of(options), "");
  options.rate = 1e-4;
  EXPECT_NE(failure_of(options).find("setting \"rate\""), std::string::npos) << failure_of(options);
}

/// The loss of the first unrolled step in the last line of a run's curve.
double last_loss(const std::filesystem::path& out) {
  std::ifstream curve(out / "curve.csv");
  std::string names, line, last;
  for (std::getline(curve, names); std::getline(curve, line);) last = line;
  std::istringstream left(names), right(last);
  std::string name, value;
  while (std::getline(left, name, ',') && std::getline(right, value, ',')) {
    if (name == "loss_1") return std::stod(value);
  }
  return NAN;
}

/// Losses over the whole law train a head as well, and are what the curve shows.
TEST(TrainHead, LossesOverTheLawRaiseTau) {
  DataFolder data, before;
  write_stories(data.path(), 60);
  HeadTrainOptions options = small_run(data, before);
  options.epochs = 0.001;  // one step
  const double untrained = tau_of(train(options).head, "eagle3:topk=1,levels=4,nodes=4");
  options.epochs = 25;
  for (double HeadTrainOptions::*loss :
       {&HeadTrainOptions::acceptance, &HeadTrainOptions::variation, &HeadTrainOptions::coupled}) {
    DataFolder out;
    HeadTrainOptions changed = options;
    changed.out = out.path().string();
    changed.soft = 0;
    changed.*loss = 1;
    const double trained = tau_of(train(changed).head, "eagle3:topk=1,levels=4,nodes=4");
    EXPECT_GT(trained, untrained + 0.3) << untrained << " to " << trained;
    EXPECT_GT(last_loss(out.path()), 0);
  }
}

TEST(TrainHead, DamagedShardIsNamedAndTheCheckpointKept) {
  DataFolder data, out;
  write_stories(data.path(), 6);
  HeadTrainOptions options = small_run(data, out);
  train(options);
  const std::string checkpoint = bytes_of(out.path() / "checkpoint.safetensors");
  std::fstream shard(data.only_shard(), std::ios::in | std::ios::out | std::ios::binary);
  shard.seekp(400);
  shard.put('\x7f').put('\x7f').flush();
  options.epochs = 2;
  DataFolder other;
  options.out = other.path().string();
  const std::string failure = failure_of(options);
  EXPECT_NE(failure.find(data.only_shard().filename().string()), std::string::npos) << failure;
  EXPECT_EQ(bytes_of(out.path() / "checkpoint.safetensors"), checkpoint);
}

TEST(TrainHead, LossThatIsNotFiniteIsNamedAndTheCheckpointKept) {
  DataFolder data, out;
  write_stories(data.path(), 12);
  HeadTrainOptions options = small_run(data, out);
  options.epochs = 4;
  options.rate = 1e30;
  options.checkpoint_every = 1;
  options.warmup = 0;
  const std::string failure = failure_of(options);
  EXPECT_NE(failure.find("not finite"), std::string::npos) << failure;
  EXPECT_TRUE(std::filesystem::exists(out.path() / "checkpoint.safetensors"));
}

TEST(TrainHead, FullDiskIsNamedAndTheCheckpointKept) {
  DataFolder data, out;
  write_stories(data.path(), 6);
  HeadTrainOptions options = small_run(data, out);
  HeadTrainHooks hooks = quiet();
  StopFlag stop;
  stop.request();
  hooks.stop = &stop;
  train(options, hooks);  // it saves its beginning
  const std::string checkpoint = bytes_of(out.path() / "checkpoint.safetensors");
  ASSERT_FALSE(checkpoint.empty());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 4096;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string failure = failure_of(options);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(failure.find("checkpoint.safetensors"), std::string::npos) << failure;
  EXPECT_EQ(bytes_of(out.path() / "checkpoint.safetensors"), checkpoint);
}

/// Whether processes that find each other at `meet` are as many. They end as if they were killed.
bool meet_as_two(const std::string& meet) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      torch::Tensor one = torch::ones({1});
      try {
        make_exchange(rank, 2, meet).release()->sum(one);
      } catch (const std::exception&) {
        _exit(1);
      }
      _exit(one.item<float>() == 2 ? 0 : 1);
    }
    children.push_back(child);
  }
  bool met = true;
  for (const pid_t child : children) {
    int status = -1;
    met = waitpid(child, &status, 0) == child && status == 0 && met;
  }
  return met;
}

TEST(TrainHead, ProcessesMeetWhereOthersWereKilled) {
  DataFolder meeting;
  const std::string meet = (meeting.path() / "meet").string();
  EXPECT_TRUE(meet_as_two(meet));
  EXPECT_TRUE(std::filesystem::exists(meet));
  EXPECT_TRUE(meet_as_two(meet));
}

TEST(TrainHead, TwoProcessesTrainOneHeadTogether) {
  DataFolder data, out, meeting;
  write_stories(data.path(), 24);
  HeadTrainOptions options = small_run(data, out);
  options.ranks = 2;
  options.meet = (meeting.path() / "meet").string();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    options.rank = 1;
    _exit(failure_of(options).empty() ? 0 : 1);
  }
  const HeadTrainResult result = train(options);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists(result.head / "model.safetensors"));
  // Both processes' pairs count: an epoch of the data takes half as many steps.
  EXPECT_GE(result.facts["pairs_trained"].get<double>(),
            2 * options.batch * result.facts["iterations"].get<double>());
}

}  // namespace
}  // namespace talon::train_head_test
