#include <gtest/gtest.h>

#include "draft/head/gguf_head.h"
#include "draft/head/head_config.h"
#include "eagle_head_files.h"
#include "eagle_run.h"
#include "io/formats/write_gguf.h"

namespace talon::eagle_rotary_test {
namespace {

const Json kLlama3 = {{"rope_type", "llama3"},
                      {"factor", 8.0},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 64}};
const Json kLinear = {{"rope_type", "linear"}, {"factor", 4.0}};
const Json kYarn = {
    {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};

/// A head of SpecForge's layout, whose rope_theta counts beside a scaling.
class ScaledHeads : public testing::Test {
 protected:
  std::string folder_with(const Json& scaling) {
    HeadFiles files = HeadFiles::read("eagle3_head");
    files.config["architectures"] = {"LlamaForCausalLMEagle3"};
    files.config["rope_scaling"] = scaling;
    files.write(folder_);
    return folder_.path().string();
  }
  /// As llama.cpp's converter writes it.
  std::string gguf_of(const std::string& head) {
    const auto file = folder_.path() / "head.gguf";
    const Checkpoint target =
        open_checkpoint(std::string(TALON_TEST_DATA) + "/golden/stories260k/target");
    write_gguf_head(open_checkpoint(head), target, HeadStorage::f32, file);
    return file.string();
  }
  /// The same file with other keys and one more tensor of numbers.
  std::string changed(const std::string& file, const GgufMetadata& keys,
                      const std::string& tensor = "", const std::vector<float>& values = {}) {
    const Checkpoint head = open_checkpoint(file);
    GgufMetadata all = keys;
    for (const auto& [key, value] : head.metadata.items()) {
      const auto is_key = [&](const auto& pair) { return pair.first == key; };
      if (std::ranges::none_of(keys, is_key)) all.emplace_back(key, value);
    }
    std::vector<TensorToWrite> tensors;
    for (const StoredTensor& t : head.tensors)
      tensors.push_back({t.name, t.type, t.shape, t.bytes});
    const auto count = static_cast<std::int64_t>(values.size());
    if (count > 0)
      tensors.push_back({tensor, StorageType::f32, {count}, std::as_bytes(std::span(values))});
    const auto other = folder_.path() / "changed.gguf";
    write_gguf(other, all, tensors);
    return other.string();
  }
  static std::vector<EagleRound> drafts_of(const std::string& head) {
    const auto drafter =
        eagle_target().make_drafter("eagle3:topk=4,levels=4,nodes=12,weights=f32", head);
    const std::vector<TokenId> prompt = {1,   403, 407, 261, 378, 432, 383,
                                         286, 261, 376, 298, 315, 421, 395};
    return run_eagle(eagle_target(), *drafter, prompt, 8);
  }
  static std::vector<float> log_ps_of(const std::vector<EagleRound>& rounds) {
    std::vector<float> all;
    for (const EagleRound& round : rounds) {
      const auto log_ps = round.tree.log_ps();
      all.insert(all.end(), log_ps.begin(), log_ps.end());
    }
    return all;
  }
  test::TemporaryFolder folder_;
};

TEST_F(ScaledHeads, AreWrittenAsFactorsOrKeysOfAGgufFileAndDraftAlike) {
  const auto unscaled = log_ps_of(drafts_of("eagle3_head"));
  for (const Json& scaling : {kLlama3, kLinear}) {
    const std::string head = folder_with(scaling);
    const auto scaled = log_ps_of(drafts_of(head));
    const std::string file = gguf_of(head);
    EXPECT_EQ(log_ps_of(drafts_of(file)), scaled) << scaling;
    EXPECT_NE(scaled, unscaled) << scaling;
    const Checkpoint written = open_checkpoint(file);
    EXPECT_EQ(written.find("rope_freqs.weight") != nullptr, scaling == kLlama3);
    EXPECT_EQ(log_ps_of(drafts_of(gguf_of(changed(file, {})))), scaled) << "written again";
  }
}

TEST_F(ScaledHeads, OfYarnAreReadByTheKeysThatModelsHave) {
  const auto expected = log_ps_of(drafts_of(folder_with(kYarn)));
  const std::string plain = gguf_of("" TALON_TEST_DATA "/golden/stories260k/eagle3_head");
  const std::string file = changed(plain, {{"eagle3.rope.scaling.type", "yarn"},
                                           {"eagle3.rope.scaling.factor", 4.0F},
                                           {"eagle3.rope.scaling.original_context_length", 64U}});
  EXPECT_EQ(log_ps_of(drafts_of(file)), expected);
  const std::string message = test::message_of([&] { gguf_of(file); });
  EXPECT_NE(message.find("found YaRN's or LongRoPE's scaling"), std::string::npos) << message;
}

/// Where there is one for each kind of layers: speculators' code takes that of those that slide.
TEST_F(ScaledHeads, OfSpeculatorsTurnAsLayersThatSlide) {
  HeadFiles files = HeadFiles::read("eagle3_head");
  const Json full = {{"rope_type", "default"}, {"rope_theta", 1000000.0}};
  const Json sliding = {{"rope_type", "default"}, {"rope_theta", 20000.0}};
  files.config["rope_parameters"] = {{"full_attention", full}, {"sliding_attention", sliding}};
  const auto base = [&] {
    const test::TemporaryFolder folder;
    files.write(folder);
    const Checkpoint head = open_checkpoint(folder.path());
    return read_head_config(head, HeadTensors(head)).rope.base;
  };
  EXPECT_EQ(base(), 1e6);
  files.config["speculators_model_type"] = "eagle3";
  EXPECT_EQ(base(), 2e4);
  files.config["rope_parameters"] = sliding;
  EXPECT_EQ(base(), 2e4);
}

TEST_F(ScaledHeads, ThatTheirNumbersDoNotFitAreRefusedByThem) {
  const std::string plain = gguf_of("" TALON_TEST_DATA "/golden/stories260k/eagle3_head");
  const auto refusal_of = [&](const std::string& file) {
    return test::message_of([&] { describe_head(open_checkpoint(file)); });
  };
  EXPECT_NE(refusal_of(changed(plain, {}, "rope_freqs.weight", {1, 2, 3}))
                .find("factors of rotary frequencies: expected 4 values, found 3"),
            std::string::npos);
  EXPECT_NE(refusal_of(changed(plain, {{"eagle3.rope.dimension_count", 4U}}))
                .find("\"eagle3.rope.dimension_count\": expected the head size 8, found 4"),
            std::string::npos);
  EXPECT_NE(refusal_of(changed(plain, {{"eagle3.rope.scaling.type", "dynamic"}}))
                .find("\"eagle3.rope.scaling.type\": expected none, linear, yarn or longrope"),
            std::string::npos);
}

}  // namespace
}  // namespace talon::eagle_rotary_test
