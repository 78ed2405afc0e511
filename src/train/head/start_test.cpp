#include <gtest/gtest.h>

#include <algorithm>

#include "draft/head/gguf_head.h"
#include "io/formats/write_safetensors.h"
#include "train/head/export_head.h"
#include "train/head/test_training.h"
#include "train/head/token_counts.h"

// Runs that start from a head: a checkpoint, an exported one, a GGUF.
namespace talon::start_test {
namespace {

using test::bytes_of;
using test::DataFolder;
using test::failure_of;
using test::kTarget;
using test::kVocabulary;
using test::small_run;
using test::tau_of;
using test::train;
using test::write_stories;

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

/// The weights lie in scales of features, which other texts have others of.
TEST(TrainHead, StartsFromTheSameWeightsWhateverTheData) {
  DataFolder data, other, first, same, changed;
  write_stories(data.path(), 40);
  write_stories(other.path(), 3);
  HeadTrainOptions options = small_run(data, first);
  train(options);
  options.start = (first.path() / "checkpoint.safetensors").string();
  options.epochs = 0.001;  // one step,
  options.rate = 0;        // which changes nothing
  options.out = same.path().string();
  const HeadTrainResult of_same = train(options);
  options.data = {other.path().string()};
  options.out = changed.path().string();
  const HeadTrainResult of_other = train(options);
  EXPECT_TRUE(bytes_of(of_other.head / "model.safetensors") ==
              bytes_of(of_same.head / "model.safetensors"));
}

/// An exported head holds 16-bit floats: what starts from it is as good, and its export the same.
TEST(TrainHead, StartsFromAnExportedHead) {
  for (const char* kind : {"eagle3", "eagle", "medusa", "dflash", "peagle", "draft"}) {
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

/// What it reads is as its drafter will keep it, what it exports is whole.
TEST(TrainHead, LearnsInTheRoundingOfFourBits) {
  DataFolder data, first, full, rounded;
  write_stories(data.path(), 60);
  HeadTrainOptions options = small_run(data, first);
  options.epochs = 25;
  options.start = train(options).head.string();
  options.epochs = 0.001;  // one step,
  options.rate = 0;        // which changes nothing
  const auto first_loss = [&](const char* weights, const DataFolder& out) {
    options.weights = weights;
    options.out = out.path().string();
    const HeadTrainResult result = train(options);
    EXPECT_EQ(bytes_of(result.head / "model.safetensors"),
              bytes_of(std::filesystem::path(options.start) / "model.safetensors"));
    return bytes_of(out.path() / "curve.csv");
  };
  const std::string of_full = first_loss("full", full), of_rounded = first_loss("int4", rounded);
  EXPECT_NE(of_full, of_rounded);

  DataFolder trained;
  options.out = trained.path().string();
  options.epochs = 10;
  options.rate = 1e-3;
  const HeadTrainResult result = train(options);
  EXPECT_EQ(result.facts["settings"]["weights"], "int4");
  EXPECT_GT(tau_of(result.head, "eagle3:weights=int4,topk=1,levels=4,nodes=4"), 1.5);
  options.weights = "full";
  EXPECT_NE(failure_of(options).find("\"weights\""), std::string::npos) << failure_of(options);
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

/// Its tensors fit, but it computes otherwise than heads that are trained here, or reads others of
/// the target's layers.
TEST(TrainHead, HeadOfAnotherFormIsRefusedByWhatItsConfigurationSays) {
  DataFolder data, first, second;
  write_stories(data.path(), 20);
  HeadTrainOptions options = small_run(data, first);
  options.epochs = 0.001;  // one step
  const std::filesystem::path head = train(options).head;
  options.start = head.string();
  options.out = second.path().string();
  const Json own = Json::parse(bytes_of(head / "config.json"));
  const auto failure_with = [&](const char* key, const Json& value) {
    Json config = own;
    config[key] = value;
    std::ofstream(head / "config.json") << config.dump();
    return failure_of(options);
  };
  for (const char* key : {"norm_before_residual", "norm_output"}) {
    const std::string failure = failure_with(key, true);
    EXPECT_NE(failure.find(key), std::string::npos) << failure;
  }
  const std::string failure = failure_with("tap_layers", Json::array({1, 2, 3}));
  EXPECT_NE(failure.find("expected 1, 2, 4, as the data has, found 1, 2, 3"), std::string::npos)
      << failure;
  EXPECT_EQ(failure_with("tap_layers", own["tap_layers"]), "");
  const std::string of_gelu = failure_with("hidden_act", "gelu_pytorch_tanh");
  EXPECT_NE(of_gelu.find("\"hidden_act\": expected silu"), std::string::npos) << of_gelu;
}

/// As for drafting: what its list means for this target, or the usual layers without one.
TEST(TrainHead, LayersOfAHeadAreComparedAsTheyAreMeant) {
  DataFolder data, first;
  write_stories(data.path(), 12);
  HeadTrainOptions options = small_run(data, first);
  options.epochs = 0.001;  // one step
  const std::filesystem::path head = train(options).head;
  ModelConfig target = read_model_config(open_checkpoint(kTarget));
  target.layers = 32;
  const Json own = Json::parse(bytes_of(head / "config.json"));
  const auto check = [&](const Json& listed, std::vector<int> streams) -> std::string {
    Json config = own;
    for (const char* key : {"tap_layers", "talon"}) config.erase(key);
    if (!listed.empty()) config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", listed}};
    std::ofstream(head / "config.json") << config.dump();
    streams.push_back(-1);
    DatasetInfo info;
    info.taps = std::move(streams);
    try {
      check_form(head, HeadKind::eagle3, info, target);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::vector<int> usual = {2, 16, 29};
  EXPECT_EQ(check({1, 15, 28}, usual), "");
  EXPECT_EQ(check(usual, usual), "");  // as vLLM counts
  EXPECT_EQ(check({}, usual), "");
  const std::string failure = check({}, {8, 16, 29});
  EXPECT_NE(failure.find("expected 8, 16, 29, as the data has, found 2, 16, 29"), std::string::npos)
      << failure;
}

TEST(TokenCounts, OfFewNewTextsDoNotOutweighWhatTheHeadBeforeDrafts) {
  TokenCounts counts(8);
  counts[5] = 60;
  const std::vector<TokenId> before = {3, -1, 999};
  EXPECT_EQ(frequent_tokens(seen_before(counts, before), 1), (std::vector<TokenId>{3}));
  counts[5] = 200;
  EXPECT_EQ(frequent_tokens(seen_before(counts, before), 1), (std::vector<TokenId>{5}));
}

/// Few new texts do not change what it drafts, but for what there is room for.
TEST(TrainHead, KeepsTheWordsOfTheHeadThatItStartsFrom) {
  DataFolder data, other, first;
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
  options.data = {other.path().string()};
  for (const int size : {96, 160}) {
    const DataFolder out;
    options.out = out.path().string();
    options.draft_vocabulary = size;
    const std::vector<TokenId> after = drafted_tokens(train(options).head, kVocabulary);
    EXPECT_EQ(std::ssize(after), size);
    EXPECT_TRUE(std::ranges::includes(after, before)) << size;
  }
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

}  // namespace
}  // namespace talon::start_test
