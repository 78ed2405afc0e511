#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "draft/head/head_config.h"
#include "draft/head/head_weights.h"
#include "eagle_head_files.h"
#include "eagle_run.h"
#include "golden_data.h"

namespace talon::eagle_refusals_test {
namespace {

struct Refusal {
  const char* name;
  const char* golden_head;
  const char* message;  // contains it
  std::function<void(HeadFiles&)> spoil;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

void remove(HeadFiles& files, const std::string& tensor) { files.tensors.erase(tensor); }

const Refusal kRefusals[] = {
    {"MissingTensor", "eagle3_head", "expected a tensor \"o_proj.weight\"",
     [](HeadFiles& f) { remove(f, "midlayer.self_attn.o_proj.weight"); }},
    {"PromisedBiasMissing", "eagle1_head", "\"fc.bias\": expected it, as \"bias\" says",
     [](HeadFiles& f) { remove(f, "fc.bias"); }},
    {"UnknownTensor", "eagle3_head", "\"mask_output\" besides",
     [](HeadFiles& f) {
       f.add("mask_output", {1, 64}, std::vector<float>(64));
     }},
    {"SecondLayer", "eagle1_head", "\"layers.1.mlp.up_proj.weight\" besides",
     [](HeadFiles& f) {
       f.add("layers.1.mlp.up_proj.weight", {1, 1}, {1});
     }},
    {"NormBeforeAttention", "eagle1_head", "\"layers.0.input_layernorm.weight\" besides",
     [](HeadFiles& f) { f.add("layers.0.input_layernorm.weight", {64}, std::vector<float>(64)); }},
    {"WrongShape", "eagle3_head",
     "\"midlayer.mlp.down_proj.weight\": expected [64, 172], found [172, 64]",
     [](HeadFiles& f) {
       f.tensors.at("midlayer.mlp.down_proj.weight").shape = {172, 64};
     }},
    {"FusionOfAnotherWidth", "eagle3_head",
     "\"fc.weight\": expected 64 rows, as many as \"midlayer.hidden_norm.weight\" has numbers, "
     "found "
     "[192, 64]",
     [](HeadFiles& f) {
       f.tensors.at("fc.weight").shape = {192, 64};
     }},
    {"MapWithoutAnOutput", "eagle3_head",
     "\"lm_head.weight\": expected it beside \"d2t\", or \"shared_output\": true, found none",
     [](HeadFiles& f) { remove(f, "lm_head.weight"); }},
    {"NotFinite", "eagle3_head", "\"norm.weight\": expected finite values",
     [](HeadFiles& f) {
       f.add("norm.weight", {64}, std::vector<float>(64, std::numeric_limits<float>::quiet_NaN()));
     }},
    {"WrongType", "eagle3_head",
     "\"norm.weight\": expected floating-point numbers or blocks of them, found i64",
     [](HeadFiles& f) {
       f.tensors.at("norm.weight") = {"I64", {64}, std::string(512, '\0')};
     }},
    {"HeadsThatDoNotDivide", "eagle3_head", "expected whole heads",
     [](HeadFiles& f) { f.config["head_dim"] = 48; }},
    {"DraftIdOutOfRange", "eagle3_head", "\"d2t\": entry 159: expected a token id below 512",
     [](HeadFiles& f) { remove(f, "t2d"), f.tensors.at("d2t").bytes[159 * 8] = '\xFF'; }},
    {"VocabulariesThatDisagree", "eagle3_head", "\"t2d\": expected to mark the 160 tokens",
     [](HeadFiles& f) { f.tensors.at("t2d").bytes[0] = f.tensors.at("t2d").bytes[0] == 0; }},
    {"NoMapForAReducedVocabulary", "eagle3_head",
     "rows of \"lm_head.weight\": expected 512, or a \"d2t\", found 160",
     [](HeadFiles& f) { remove(f, "t2d"), remove(f, "d2t"); }},
    {"OtherVocabulary", "eagle3_head", "\"vocab_size\": expected 512, found 32000",
     [](HeadFiles& f) { f.config["vocab_size"] = 32000; }},
    {"OtherTargetWidth", "eagle3_head", "\"target_hidden_size\": expected 64, found 4096",
     [](HeadFiles& f) { f.config["target_hidden_size"] = 4096; }},
    {"TapBeyondTheTarget", "eagle3_head",
     "tap layer: expected at most the 5 layers of the target, found 6",
     [](HeadFiles& f) {
       f.config["tap_layers"] = {1, 2, 6};
     }},
    {"TooFewTaps", "eagle3_head", "\"fc.weight\" reads 3 target layers",
     [](HeadFiles& f) {
       f.config["tap_layers"] = {1, 2};
     }},
    {"LayersOfAnotherModel", "eagle3_head", "\"layer_types\": expected a list of 1 names, found [",
     [](HeadFiles& f) {
       f.config["layer_types"] = Json::array({"full_attention", "sliding_attention"});
       f.config["sliding_window"] = 4;
     }},
    {"LayersOfAnotherKind", "eagle3_head",
     "\"layer_types\": expected full_attention or sliding_attention, found [\"chunked_attention\"]",
     [](HeadFiles& f) { f.config["layer_types"] = Json::array({"chunked_attention"}); }},
    {"LayersThatSlideWithoutAWindow", "eagle3_head",
     "\"sliding_window\": expected an integer in 1..",
     [](HeadFiles& f) { f.config["layer_types"] = Json::array({"sliding_attention"}); }},
    {"AnotherActivation", "eagle3_head",
     "\"hidden_act\": expected silu or gelu_pytorch_tanh, found \"relu\"",
     [](HeadFiles& f) { f.config["hidden_act"] = "relu"; }},
    {"AnotherActivationByGemmasKey", "eagle3_head",
     "\"hidden_activation\": expected silu or gelu_pytorch_tanh, found \"relu\"",
     [](HeadFiles& f) { f.config.erase("hidden_act"), f.config["hidden_activation"] = "relu"; }},
    {"BiasOfTheGateAlone", "eagle3_head",
     "\"up_proj.bias\": expected it, as \"gate_proj.bias\" says, found none",
     [](HeadFiles& f) { f.add("midlayer.mlp.gate_proj.bias", {172}, std::vector<float>(172)); }},
    {"BiasBesideTheGateAlone", "eagle3_head",
     "\"up_proj.bias\": expected \"gate_proj.bias\" beside it, found none",
     [](HeadFiles& f) { f.add("midlayer.mlp.up_proj.bias", {172}, std::vector<float>(172)); }},
    {"NormOfKeysAlone", "eagle3_head", "\"midlayer.self_attn.k_norm.weight\" besides",
     [](HeadFiles& f) { f.add("midlayer.self_attn.k_norm.weight", {8}, std::vector<float>(8)); }},
    {"BiasOfASecondLayerAlone", "../blocks/peagle/head",
     "\"layers.1.self_attn.o_proj.bias\" besides",
     [](HeadFiles& f) { f.add("layers.1.self_attn.o_proj.bias", {64}, std::vector<float>(64)); }},
    {"ScaleOfLogits", "eagle3_head", "\"logit_scale\": expected a number in 1e-06..",
     [](HeadFiles& f) { f.config["logit_scale"] = 0; }},
    {"ParallelDraftsWithoutMasks", "eagle3_head",
     "\"mask_hidden\": expected it, as \"parallel_drafting\" says, found none",
     [](HeadFiles& f) { f.config["parallel_drafting"] = true; }},
    {"NormThatIsNotSkipped", "eagle1_head",
     "\"norm.weight\": expected it, as \"skip_output_norm\" says, found none",
     [](HeadFiles& f) {
       f.config["model"] = f.config;
       f.config["model_type"] = "eagle";
       f.config["model"]["skip_output_norm"] = false;
     }},
    {"SingleFeature", "eagle3_head", "\"use_aux_hidden_state\": expected true",
     [](HeadFiles& f) {
       f.config["eagle_config"] = {{"use_aux_hidden_state", false}};
     }},
    {"SingleFeatureWithoutFusion", "eagle3_head", "\"use_aux_hidden_state\": expected true",
     [](HeadFiles& f) {
       f.config["eagle_config"] = {{"use_aux_hidden_state", false}};
       remove(f, "fc.weight");
     }},
};

class HeadRefusals : public testing::TestWithParam<Refusal> {};

TEST_P(HeadRefusals, TheMessageNamesTheField) {
  HeadFiles files = HeadFiles::read(GetParam().golden_head);
  GetParam().spoil(files);
  const test::TemporaryFolder folder;
  files.write(folder);
  const std::string message =
      test::message_of([&] { load_head(open_checkpoint(folder.path()), eagle_target().model); });
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

std::string refusal_name(const testing::TestParamInfo<Refusal>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, HeadRefusals, testing::ValuesIn(kRefusals), refusal_name);

TEST(HeadWindows, AreReadOfItsOwnLayer) {
  HeadFiles files = HeadFiles::read("eagle3_head");
  const auto window = [&] {
    const test::TemporaryFolder folder;
    files.write(folder);
    const Checkpoint checkpoint = open_checkpoint(folder.path());
    return read_head_config(checkpoint, HeadTensors(checkpoint)).common_window();
  };
  files.config["sliding_window"] = 4;
  EXPECT_EQ(window(), 0);
  files.config["use_sliding_window"] = true;
  EXPECT_EQ(window(), 0) << "behind the first 28 layers only";
  files.config["max_window_layers"] = 0;
  EXPECT_EQ(window(), 4);
  files.config["layer_types"] = Json::array({"full_attention", "full_attention"});
  EXPECT_EQ(window(), 0) << "a list of the target's layers, which are all alike";
  files.config["layer_types"] = Json::array({"sliding_attention"});
  EXPECT_EQ(window(), 4);
}

/// Also a head that needs no table of its target.
TEST(HeadFit, AHeadForATargetOfAnotherWidthIsRefused) {
  ModelConfig wider = eagle_target().model.config;
  wider.hidden = 128;
  for (const bool own_table : {false, true}) {
    HeadFiles files = HeadFiles::read("eagle1_head");
    if (own_table) files.add("embed_tokens.weight", {512, 64}, std::vector<float>(512 * 64, 0.5F));
    const test::TemporaryFolder folder;
    files.write(folder);
    const Checkpoint checkpoint = open_checkpoint(folder.path());
    const HeadConfig head = read_head_config(checkpoint, HeadTensors(checkpoint));
    const std::string message = test::message_of([&] { fit_to_target(head, wider, "load"); });
    EXPECT_NE(message.find("expected features of width 128"), std::string::npos) << message;
  }
}

TEST(HeadFit, TheUsualTapsAreTheOfficialLayersWhereTheyDiffer) {
  const Checkpoint checkpoint =
      open_checkpoint(std::string(TALON_TEST_DATA) + "/golden/stories260k/eagle3_head");
  const HeadConfig head = read_head_config(checkpoint, HeadTensors(checkpoint));
  ModelConfig target = eagle_target().model.config;
  const auto layers_of = [&](int layers) {
    target.layers = layers;
    std::vector<int> taps;
    for (const FeatureTap& tap : fit_to_target(head, target, "load")) taps.push_back(tap.layer);
    return taps;
  };
  EXPECT_EQ(layers_of(32), (std::vector<int>{2, 16, 29}));
  EXPECT_EQ(layers_of(36), (std::vector<int>{2, 18, 33}));
  EXPECT_EQ(layers_of(5), (std::vector<int>{1, 2, 4}));
}

const std::string kSglang = "LlamaForCausalLMEagle3", kVllm = "Eagle3LlamaForCausalLM";
const std::string kOfficial = "LlamaForCausalLM", kSpeculators = "Eagle3Speculator";
constexpr bool kNested = true, kAtTheTop = false;  // in `eagle_config`, or beside it

/// A list for a target of 32 layers, of which the usual are 2, 16 and 29 as Talon counts.
struct ListedTaps {
  std::string architecture;
  bool nested;
  std::vector<int> listed, expected;
};

const ListedTaps kListedTaps[] = {
    {kSglang, kNested, {1, 15, 28}, {2, 16, 29}},
    {kSglang, kNested, {1, 15, 30}, {2, 16, 31}},
    {kSglang, kNested, {2, 16, 29}, {2, 16, 29}},  // the usual ones as vLLM counts
    {kSglang, kNested, {8, 20, 32}, {8, 20, 32}},  // no layer 32 is left
    {kSglang, kAtTheTop, {8, 20, 31}, {8, 20, 31}},
    {kOfficial, kNested, {1, 15, 30}, {2, 16, 31}},
    {kOfficial, kAtTheTop, {8, 20, 31}, {8, 20, 31}},
    {kVllm, kNested, {8, 20, 31}, {8, 20, 31}},
    {kSpeculators, kAtTheTop, {1, 15, 29}, {1, 15, 29}},
    {kSpeculators, kAtTheTop, {1, 15, 28}, {2, 16, 29}},  // the usual ones as SpecForge counts
};

std::vector<int> taps_of(const HeadFiles& files) {
  const test::TemporaryFolder folder;
  files.write(folder);
  const Checkpoint checkpoint = open_checkpoint(folder.path());
  const HeadConfig head = read_head_config(checkpoint, HeadTensors(checkpoint));
  ModelConfig target = eagle_target().model.config;
  target.layers = 32;
  std::vector<int> taps;
  for (const FeatureTap& tap : fit_to_target(head, target, "load")) taps.push_back(tap.layer);
  return taps;
}

TEST(HeadFit, ListsOfLayersAreReadAsTheirMakersCount) {
  for (const auto& [architecture, nested, listed, expected] : kListedTaps) {
    HeadFiles files = HeadFiles::read("eagle3_head");
    files.config["architectures"] = Json::array({architecture});
    if (architecture == kSpeculators) files.config["speculators_model_type"] = "eagle3";
    Json& keys = nested ? files.config["eagle_config"] : files.config;
    keys["eagle_aux_hidden_state_layer_ids"] = listed;
    EXPECT_EQ(taps_of(files), expected) << files.config;
  }
}

TEST(HeadFit, ListsOfAngelSlimNameLayersThatAreLeft) {
  HeadFiles files = HeadFiles::read("eagle3_head");
  files.config["architectures"] = Json::array({kVllm});
  files.config["aux_hidden_states_layer_ids"] = {4, 15, 30};
  EXPECT_EQ(taps_of(files), (std::vector<int>{5, 16, 31}));
  files.config["eagle_aux_hidden_state_layer_ids"] = {8, 20, 31};
  EXPECT_EQ(taps_of(files), (std::vector<int>{8, 20, 31})) << "the common key wins";
}

TEST(HeadFit, ListsOfTalonAreTakenAsTheyAre) {
  const std::vector<int> shifted = {1, 15, 28};
  HeadFiles named = HeadFiles::read("eagle3_head"), trained = named;
  named.config["tap_layers"] = shifted;
  EXPECT_EQ(taps_of(named), shifted);
  trained.config["speculators_model_type"] = "eagle3";
  trained.config["eagle_aux_hidden_state_layer_ids"] = shifted;
  trained.config["talon"] = {{"target", "stories260k"}};
  EXPECT_EQ(taps_of(trained), shifted);
}

TEST(HeadDrafters, AHeadOfTheOtherGenerationIsRefused) {
  const auto message = [](const char* drafter, const char* head) {
    return test::message_of([&] { eagle_target().make_drafter(drafter, head); });
  };
  EXPECT_NE(message("eagle3", "eagle1_head").find("use eagle or eagle2"), std::string::npos);
  EXPECT_NE(message("eagle2", "eagle3_head").find("use eagle3"), std::string::npos);
  EXPECT_NE(message("eagle2:depth=3", "eagle1_head").find("no option \"depth\""),
            std::string::npos);
}

}  // namespace
}  // namespace talon::eagle_refusals_test
