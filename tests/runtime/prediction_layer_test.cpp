#include <gtest/gtest.h>

#include "../faults/cli_process.h"
#include "core/error.h"
#include "io/formats/write_gguf.h"
#include "io/json.h"
#include "io/test_files.h"
#include "maker_data.h"
#include "model/load/fingerprint.h"
#include "runtime/answerer.h"
#include "runtime/cache_budget.h"
#include "runtime/heads/auto_drafter.h"
#include "runtime/heads/head_kind.h"
#include "runtime/heads/heads.h"
#include "runtime/heads/pairing.h"
#include "runtime/loaded_model.h"

// Models that came with a layer which predicts a token further (docs/methods.md 2.5).
namespace talon::test::prediction_layer_test {
namespace {

namespace fs = std::filesystem;

LoadedModel opened(const fs::path& model) {
  return open_model({.model = model.string(), .threads = 1});
}

/// The answer to a prompt by a drafter, which stands for another.
std::vector<TokenId> answer(const LoadedModel& loaded, const HeadFinder& heads,
                            const std::vector<TokenId>& prompt, const std::string& drafter,
                            const std::string& stands_for) {
  const std::unique_ptr<KvCache> cache = open_cache(loaded.model);
  DecodeSettings settings;
  settings.drafter = drafter;
  settings.policy = "fixed";
  settings.heads = heads;
  Answerer answerer(loaded.model, *cache, loaded.tokenizer_or_null(), settings);
  EXPECT_EQ(answerer.drafter(), stands_for);
  Request request;
  request.prompt = prompt;
  request.max_new = 12;
  return answerer.decode(request).tokens;
}

class ModelsWithALayer : public testing::TestWithParam<std::string> {};

TEST_P(ModelsWithALayer, DraftWithItByThemselves) {
  const MakerRecording files = unpack_maker(GetParam());
  const LoadedModel loaded = opened(files.folder);
  const HeadFinder heads = heads_of(loaded, {});
  EXPECT_EQ(heads("mtp"), files.folder.string());
  EXPECT_EQ(heads("eagle3"), "");
  const std::vector<TokenId>& prompt = files.sequences[0].ids;
  EXPECT_EQ(answer(loaded, heads, prompt, "auto", "mtp+suffix"),
            answer(loaded, heads, prompt, "none", "none"));
}

TEST_P(ModelsWithALayer, AreSaidToDoSo) {
  const MakerRecording files = unpack_maker(GetParam());
  const Folder models;
  const Outcome outcome =
      run_talon({"inspect", files.folder.string(), "--json", "--models", models.path().string()});
  ASSERT_EQ(outcome.code, 0) << outcome.notes;
  const Json drafts = Json::parse(outcome.output).at("drafts");
  EXPECT_EQ(drafts.at("auto"), "mtp+suffix");
  EXPECT_EQ(drafts.at("heads").at("mtp").get<std::string>(), files.folder.string());
}

INSTANTIATE_TEST_SUITE_P(Families, ModelsWithALayer,
                         testing::Values("deepseek_v3", "glm4_moe", "qwen3_next", "qwen3_5",
                                         "mimo"),
                         [](const auto& tested) { return tested.param; });

TEST(PredictionLayers, OfGgufFilesAreFoundWhereTheConverterKeptThem) {
  const auto auto_of = [](const fs::path& model) {
    const LoadedModel loaded = opened(model);
    return resolve_drafter("auto", heads_of(loaded, {}));
  };
  for (const std::string family : {"glm4_moe", "qwen3_5"}) {
    EXPECT_EQ(auto_of(unpack_maker(family).gguf), "mtp+suffix") << family;
  }
  EXPECT_EQ(auto_of(unpack_maker("mimo").mtp_gguf), "mtp+suffix");
  EXPECT_EQ(auto_of(unpack_maker("deepseek_v3").gguf), "suffix");
}

/// A GGUF file with those tensors of a model that `is_kept` chooses.
template <typename IsKept>
fs::path write_part(const Checkpoint& model, const fs::path& file, const IsKept& is_kept) {
  const std::string prefix = model.metadata.at("general.architecture").get<std::string>() + ".";
  GgufMetadata metadata;
  for (const auto& [key, value] : model.metadata.items()) {
    if (key == "general.architecture" || key.starts_with(prefix)) metadata.emplace_back(key, value);
  }
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : model.tensors) {
    if (!is_kept(tensor.name)) continue;
    tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
  }
  write_gguf(file, metadata, tensors);
  return file;
}

/// A model and its layer in files of their own, as llama.cpp's converter writes them: beside the
/// layer lie copies of the model's tables.
class LayersAlone : public testing::Test {
 protected:
  LayersAlone() {
    const auto is_of_layer = [this](const std::string& name) { return name.starts_with(place_); };
    write_part(whole_, model_, [&](const std::string& name) { return !is_of_layer(name); });
    write_part(whole_, layer_, [&](const std::string& name) {
      return !name.starts_with("blk.") || is_of_layer(name);
    });
  }

  const TemporaryFolder folder_;
  const MakerRecording recording_ = unpack_maker("glm4_moe");
  const Checkpoint whole_ = open_checkpoint(recording_.gguf);
  const ModelConfig config_ = read_model_config(whole_);
  const std::string place_ = fmt::format("blk.{}.", config_.layers);
  const fs::path model_ = folder_.path() / "m.gguf", layer_ = folder_.path() / "mtp-m.gguf";
};

TEST_F(LayersAlone, AreHeadsAndModelsThatKeepTheirsAreNot) {
  EXPECT_EQ(kind_of_head(open_checkpoint(layer_)), "mtp");
  for (const fs::path& model : {model_, recording_.gguf, recording_.folder}) {
    EXPECT_EQ(kind_of_head(open_checkpoint(model)), "") << model;
  }
}

TEST_F(LayersAlone, FitModelsOfTheirSizesOnly) {
  const Checkpoint layer = open_checkpoint(layer_);
  EXPECT_EQ(message_of([&] { check_head_fits(layer, config_); }), "no error");
  ModelConfig deeper = config_, wider = config_;
  deeper.layers += 1;
  wider.hidden *= 2;
  const std::string missing = message_of([&] { check_head_fits(layer, deeper); });
  EXPECT_NE(missing.find("expected a prediction layer (blk."), std::string::npos) << missing;
  const std::string other = message_of([&] { check_head_fits(layer, wider); });
  EXPECT_NE(other.find("expected [128, 256], found [64, 128]"), std::string::npos) << other;
}

TEST_F(LayersAlone, DraftForTheModelThatTheyArePairedWith) {
  const LoadedModel loaded = opened(model_);
  EXPECT_FALSE(loaded.predicts);
  EXPECT_EQ(resolve_drafter("auto", heads_of(loaded, {folder_.path()})), "suffix");
  write_pairing(folder_.path(), {layer_.filename().string()}, loaded.fingerprint);
  const HeadFinder heads = heads_of(loaded, {folder_.path()});
  EXPECT_EQ(heads("mtp"), layer_.string());
  const std::vector<TokenId>& prompt = recording_.sequences[0].ids;
  EXPECT_EQ(answer(loaded, heads, prompt, "auto", "mtp+suffix"),
            answer(loaded, heads, prompt, "none", "none"));
  EXPECT_EQ(heads_of(whole_, config_, {folder_.path()})("mtp"), layer_.string())
      << "before the model's own";
}

}  // namespace
}  // namespace talon::test::prediction_layer_test
