#include "train/head/train_head.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/error.h"
#include "draft/eagle/gguf_head.h"
#include "io/formats/write_safetensors.h"
#include "train/data/test_folder.h"
#include "train/head/export_head.h"
#include "train/head/math/exchange.h"
#include "train/head/measure_head.h"
#include "train/head/target_weights.h"

namespace talon {
namespace {

using test::data_model;
using test::DataFolder;

constexpr const char* kTarget = TALON_TEST_DATA "/golden/stories260k/target";
constexpr int kVocabulary = 512;

/// Stories of the target itself, begun with letters.
void write_stories(const std::filesystem::path& folder, int prompts) {
  PlanOptions plan;
  plan.temperatures = TemperatureMix("0:0.5,0.5-0.9:0.5");
  plan.max_new = 40;
  GenerateOptions work = test::small_work();
  work.max_new = plan.max_new;
  work.batch = 8;
  work.max_rows = 64;
  test::fill(folder, test::letters_plan(prompts, plan), work);
}

HeadTrainOptions small_run(const DataFolder& data, const DataFolder& out) {
  HeadTrainOptions options;
  options.data = {data.path().string()};
  options.out = out.path().string();
  options.epochs = 1;
  options.batch = 128;
  options.steps = 2;
  options.rate = 3e-3;
  options.warmup = 2;
  options.loss_tokens = 256;
  options.draft_vocabulary = 0;
  options.max_tokens = 128;
  options.log_every = 1;
  options.precision = "f32";
  return options;
}

HeadTrainHooks quiet() {
  HeadTrainHooks hooks;
  hooks.log = [](std::string_view) {};
  return hooks;
}

HeadTrainResult train(const HeadTrainOptions& options, const HeadTrainHooks& hooks = quiet()) {
  return train_head(options, open_checkpoint(kTarget), hooks);
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream input(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

/// What goes wrong, as text; empty if nothing does.
std::string failure_of(const HeadTrainOptions& options) {
  try {
    train(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Tokens per check on prompts that were not trained on.
double tau_of(const std::filesystem::path& head, const std::string& drafter) {
  HeadMeasure measure;
  for (int i = 0; i < 8; ++i) {
    measure.prompts.push_back(test::encode_letters(std::string(6, static_cast<char>('A' + i))));
  }
  measure.max_new = 40;
  measure.end_tokens = {2};
  return measure_acceptance(data_model().model, measure, drafter + ",head=" + head.string());
}

TEST(MeasureHead, ManyAnswersAtOnceHaveTheWholeTreesOfEach) {
  const std::string drafter =
      "eagle3:topk=8,levels=6,nodes=15,head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head";
  HeadMeasure measure{.prompts = {test::encode_letters("Once")}, .end_tokens = {2}, .max_new = 12};
  const double alone = measure_acceptance(data_model().model, measure, drafter);
  EXPECT_GT(alone, 1.1);
  measure.prompts.resize(90, measure.prompts.front());
  EXPECT_EQ(measure_acceptance(data_model().model, measure, drafter), alone);
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
                                           KindCase{"peagle", "peagle:topk=1,levels=4"}),
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

TEST(TrainHead, SizesThatTheHeadCannotHaveAreRefused) {
  DataFolder data, out;
  write_stories(data.path(), 6);
  const auto refusal = [&](const char* kind, int intermediate, int medusa_layers) -> std::string {
    HeadTrainOptions options = small_run(data, out);
    options.kind = kind;
    options.intermediate = intermediate;
    options.medusa_layers = medusa_layers;
    try {
      train(options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("eagle3", 173, 1).find("the target's 172, got 173"), std::string::npos);
  EXPECT_NE(refusal("medusa", 64, 1).find("has no MLP"), std::string::npos);
  EXPECT_NE(refusal("eagle", 0, 2).find("--kind medusa, got eagle"), std::string::npos);
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

TEST(TrainHead, StartsFromTheWeightsOfAnotherRun) {
  DataFolder data, first, second;
  write_stories(data.path(), 12);
  HeadTrainOptions options = small_run(data, first);
  options.epochs = 10;
  train(options);
  options.out = second.path().string();
  options.epochs = 0.001;
  options.rate = 0;
  options.start = (first.path() / "checkpoint.safetensors").string();
  train(options);
  const double tau = tau_of(first.path() / "head", "eagle3:topk=1,levels=4,nodes=4");
  EXPECT_NEAR(tau_of(second.path() / "head", "eagle3:topk=1,levels=4,nodes=4"), tau, 0.3);
}

/// An exported head holds 16-bit floats: what starts from it is as good, and its export the same.
TEST(TrainHead, StartsFromAnExportedHead) {
  for (const char* kind : {"eagle3", "eagle", "medusa", "dflash", "peagle"}) {
    SCOPED_TRACE(kind);
    DataFolder data, first, second;
    write_stories(data.path(), 40);
    HeadTrainOptions options = small_run(data, first);
    options.kind = kind;
    const HeadTrainResult trained = train(options);
    options.start = trained.head.string();
    options.out = second.path().string();
    options.epochs = 0.001;  // one step,
    options.rate = 0;        // which changes nothing
    const HeadTrainResult again = train(options);
    EXPECT_EQ(bytes_of(again.head / "model.safetensors"),
              bytes_of(trained.head / "model.safetensors"));
  }
}

/// Whose q and k have another order of rows.
TEST(TrainHead, StartsFromAHeadInGguf) {
  for (const char* kind : {"eagle3", "eagle"}) {
    SCOPED_TRACE(kind);
    DataFolder data, first, second;
    write_stories(data.path(), 40);
    HeadTrainOptions options = small_run(data, first);
    options.kind = kind;
    const HeadTrainResult trained = train(options);
    const std::filesystem::path file = first.path() / "head.gguf";
    write_gguf_head(open_checkpoint(trained.head), open_checkpoint(kTarget), HeadStorage::f32,
                    file);
    options.start = file.string();
    options.out = second.path().string();
    options.epochs = 0.001;  // one step,
    options.rate = 0;        // which changes nothing
    const HeadTrainResult again = train(options);
    EXPECT_TRUE(bytes_of(again.head / "model.safetensors") ==
                bytes_of(trained.head / "model.safetensors"));
  }
}

/// A part that the head to train does not have must not be lost in silence.
TEST(TrainHead, HeadWithFurtherPartsIsRefusedByTheirTensor) {
  DataFolder data, first, second;
  write_stories(data.path(), 20);
  HeadTrainOptions options = small_run(data, first);
  options.kind = "eagle3";
  const std::filesystem::path head = train(options).head;
  const Checkpoint checkpoint = open_checkpoint(head);
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : checkpoint.tensors) {
    tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
  }
  const std::vector<float> bias(64);
  tensors.push_back(
      {"midlayer.self_attn.q_proj.bias", StorageType::f32, {64}, std::as_bytes(std::span(bias))});
  const std::filesystem::path other = first.path() / "other";
  std::filesystem::create_directory(other);
  std::filesystem::copy_file(head / "config.json", other / "config.json");
  write_safetensors(other / "model.safetensors", tensors, {{"format", "pt"}});
  options.start = other.string();
  options.out = second.path().string();
  EXPECT_NE(failure_of(options).find("midlayer.self_attn.q_proj.bias"), std::string::npos)
      << failure_of(options);
}

/// Tokens that were not seen anew are drafted on, as far as there is room.
TEST(TrainHead, KeepsTheWordsOfTheHeadThatItStartsFrom) {
  DataFolder data, other, first, second;
  write_stories(data.path(), 40);
  write_stories(other.path(), 2);
  HeadTrainOptions options = small_run(data, first);
  options.draft_vocabulary = 96;
  const HeadTrainResult trained = train(options);
  const std::vector<TokenId> before = drafted_tokens(trained.head, kVocabulary);
  ASSERT_EQ(before.size(), 96U);
  const std::filesystem::path gguf = first.path() / "head.gguf";
  write_gguf_head(open_checkpoint(trained.head), open_checkpoint(kTarget), HeadStorage::f32, gguf);
  EXPECT_EQ(drafted_tokens(gguf, kVocabulary), before);
  options.start = trained.head.string();
  options.out = second.path().string();
  options.data = {other.path().string()};
  options.draft_vocabulary = 160;
  const std::vector<TokenId> after = drafted_tokens(train(options).head, kVocabulary);
  EXPECT_EQ(after.size(), 160U);
  EXPECT_TRUE(std::ranges::includes(after, before));
}

TEST(TrainHead, ExportedHeadOfOtherSizesIsRefusedByItsTensor) {
  DataFolder data, first, second;
  write_stories(data.path(), 20);
  HeadTrainOptions options = small_run(data, first);
  options.intermediate = 64;
  options.start = train(options).head.string();
  options.out = second.path().string();
  options.intermediate = 0;
  EXPECT_NE(failure_of(options).find("midlayer.mlp.gate_proj.weight"), std::string::npos)
      << failure_of(options);
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
  train(options);
  const std::string checkpoint = bytes_of(out.path() / "checkpoint.safetensors");
  options.epochs = 1;  // it resumes at its end, and saves
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
}  // namespace talon
