#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "backend/cpu/cpu.h"
#include "backend/index_list.h"
#include "draft/head/gguf_head.h"
#include "draft/head/head_config.h"
#include "draft/head/head_weights.h"
#include "eagle_head_files.h"
#include "eagle_run.h"
#include "golden_data.h"
#include "io/formats/write_gguf.h"

namespace talon::eagle_layouts_test {
namespace {

using Convert = std::function<void(HeadFiles&)>;

struct Layout {
  const char* name;
  const char* golden_head;
  const char* drafter;
  const char* described_layout;
  Convert convert;
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

Json layer_config(const HeadFiles& files) {
  Json layer = files.config;
  layer.erase("architectures");
  layer.erase("bias");
  return layer;
}

void to_sglang1(HeadFiles& files) { files.config["architectures"] = {"LlamaForCausalLMEagle"}; }

/// The first engine's: the Llama configuration nested, an output matrix added, and two norms that
/// nobody applies.
void to_vllm1(HeadFiles& files) {
  files.config = {{"model_type", "eagle"},
                  {"architectures", {"EAGLEModel"}},
                  {"model", layer_config(files)},
                  {"truncated_vocab_size", 512}};
  files.rename_prefix("layers.", "model.layers.");
  files.rename_prefix("embed_tokens.", "model.embed_tokens.");
  files.add("lm_head.weight", {512, 64}, target_embedding());
  files.add("model.norm.weight", {64}, std::vector<float>(64, 1.0F));
  files.add("model.layers.0.input_layernorm.weight", {64}, std::vector<float>(64, 1.0F));
}

void to_speculators1(HeadFiles& files) {
  files.config = {{"speculators_model_type", "eagle"},
                  {"architectures", {"EagleSpeculator"}},
                  {"layernorms", false},
                  {"fusion_bias", true},
                  {"transformer_layer_config", layer_config(files)}};
  files.rename_prefix("fc.", "fusion_fc.");
  files.rename_prefix("layers.0.", "transformer.");
  files.tensors.erase("embed_tokens.weight");
}

void to_token_map1(HeadFiles& files) {
  to_vllm1(files);
  std::string ids;
  for (std::int64_t id = 0; id < 512; ++id)
    ids.append(reinterpret_cast<const char*>(&id), sizeof(id));
  files.tensors["token_map"] = {"I64", {512}, ids};
}

/// SpecForge and AngelSlim: outputs of layers 0, 1 and 3, which are the inputs of 1, 2 and 4; all
/// heads' sizes named.
void to_specforge3(HeadFiles& files) {
  files.config["architectures"] = {"LlamaForCausalLMEagle3"};
  files.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", {0, 1, 3}},
                                  {"use_aux_hidden_state", true}};
  files.config["head_dim"] = 8;
  files.add("embed_tokens.weight", {512, 64}, target_embedding());
}

/// NVIDIA's ModelOpt: the official architecture beside SpecForge's keys.
void to_model_opt3(HeadFiles& files) {
  files.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", {0, 1, 3}},
                                  {"use_aux_hidden_state", true}};
}

void to_sglang3(HeadFiles& files) {
  files.config["architectures"] = {"LlamaForCausalLMEagle3"};
  files.rename_prefix("midlayer.", "model.midlayer.");
  files.rename_prefix("fc.", "model.fc.");
  files.rename_prefix("norm.", "model.norm.");
}

void to_vllm3(HeadFiles& files) {
  files.config["architectures"] = {"Eagle3LlamaForCausalLM"};
  files.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", {1, 2, 4}}};
  files.rename_prefix("midlayer.", "model.layers.0.");
  files.rename("d2t", "draft_id_to_target_id");
  files.tensors.erase("t2d");
}

void to_speculators3(HeadFiles& files) {
  files.config = {{"speculators_model_type", "eagle3"},
                  {"architectures", {"Eagle3Speculator"}},
                  {"draft_vocab_size", 160},
                  {"norm_before_residual", false},
                  {"target_hidden_size", nullptr},
                  {"eagle_aux_hidden_state_layer_ids", {1, 2, 4}},
                  {"transformer_layer_config", layer_config(files)}};
  files.rename_prefix("midlayer.", "layers.0.");
  files.add("embed_tokens.weight", {512, 64}, target_embedding());
  files.add("verifier_norm.weight", {64}, std::vector<float>(64, 1.0F));
}

/// Some converters store ids in d2t, which t2d gives away.
void to_absolute_ids(HeadFiles& files) {
  std::string& bytes = files.tensors.at("d2t").bytes;
  for (std::int64_t i = 0; i < 160; ++i) {
    std::int64_t id = 0;
    char* at = bytes.data() + static_cast<std::size_t>(i) * sizeof(id);
    std::memcpy(&id, at, sizeof(id));
    id += i;
    std::memcpy(at, &id, sizeof(id));
  }
}

void named_taps(HeadFiles& files) { files.config["tap_layers"] = {1, 2, 4}; }

const Layout kLayouts[] = {
    {"SGLangEagle1", "eagle1_head", "eagle2", "SGLang, SpecForge, AngelSlim", to_sglang1},
    {"VllmEagle1", "eagle1_head", "eagle2", "vLLM", to_vllm1},
    {"VllmEagle1WithTokenMap", "eagle1_head", "eagle2", "vLLM", to_token_map1},
    {"SpeculatorsEagle1", "eagle1_head", "eagle2", "speculators", to_speculators1},
    {"SpecForgeEagle3", "eagle3_head", "eagle3", "SGLang, SpecForge, AngelSlim", to_specforge3},
    {"ModelOptEagle3", "eagle3_head", "eagle3", "official", to_model_opt3},
    {"SGLangEagle3", "eagle3_head", "eagle3", "SGLang, SpecForge, AngelSlim", to_sglang3},
    {"VllmEagle3", "eagle3_head", "eagle3", "vLLM", to_vllm3},
    {"SpeculatorsEagle3", "eagle3_head", "eagle3", "speculators", to_speculators3},
    {"AbsoluteDraftIds", "eagle3_head", "eagle3", "official", to_absolute_ids},
    {"NamedTaps", "eagle3_head", "eagle3", "official", named_taps},
};

class HeadLayouts : public testing::TestWithParam<Layout> {};

TEST_P(HeadLayouts, AConvertedCopyGivesIdenticalDrafts) {
  const Layout& layout = GetParam();
  HeadFiles files = HeadFiles::read(layout.golden_head);
  layout.convert(files);
  const test::TemporaryFolder folder;
  files.write(folder);
  expect_same_drafts(drafts_of(layout.drafter, layout.golden_head),
                     drafts_of(layout.drafter, folder.path().string()));

  const Json described = describe_head(open_checkpoint(folder.path()));
  EXPECT_EQ(described.at("layout"), layout.described_layout);
  EXPECT_EQ(described.at("variant"),
            std::string(layout.drafter) == "eagle3" ? "EAGLE-3" : "EAGLE-1/2");
}

std::string layout_name(const testing::TestParamInfo<Layout>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, HeadLayouts, testing::ValuesIn(kLayouts), layout_name);

TEST(HeadFormats, TheTorchFileGivesTheDraftsOfTheSafetensorsFile) {
  for (const auto& [head, drafter] :
       {std::pair{"eagle1_head", "eagle2"}, std::pair{"eagle3_head", "eagle3"},
        std::pair{"eagle3_head_fullvocab", "eagle3"}}) {
    const test::TemporaryFolder folder;
    const auto golden = std::filesystem::path(TALON_TEST_DATA) / "golden/stories260k" / head;
    std::filesystem::copy_file(golden / "config.json", folder.path() / "config.json");
    std::filesystem::copy_file(golden / "pytorch_model.bin", folder.path() / "pytorch_model.bin");
    expect_same_drafts(drafts_of(drafter, head), drafts_of(drafter, folder.path().string()));
  }
}

class GgufHeads : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  std::string written(const std::filesystem::path& head, HeadStorage storage) const {
    const auto file = folder_.path() / "head.gguf";
    write_gguf_head(open_checkpoint(head), golden_target(), storage, file);
    return file.string();
  }
  static std::filesystem::path golden(const std::string& head) {
    return std::filesystem::path(TALON_TEST_DATA) / "golden/stories260k" / head;
  }
  test::TemporaryFolder folder_;
};

TEST_P(GgufHeads, GiveTheDraftsOfTheHeadTheyAreMadeOf) {
  const auto& [head, drafter] = GetParam();
  const std::string file = written(golden(head), HeadStorage::f32);
  expect_same_drafts(drafts_of(drafter, head), drafts_of(drafter, file));
  EXPECT_EQ(describe_head(open_checkpoint(file)).at("layout"), "GGUF");
}

TEST_P(GgufHeads, MadeOfAGgufHeadAreTheSame) {
  const std::string first = written(golden(GetParam().first), HeadStorage::q8_0);
  const auto second = folder_.path() / "second.gguf";
  std::filesystem::rename(written(first, HeadStorage::q8_0), second);
  const Checkpoint a = open_checkpoint(written(golden(GetParam().first), HeadStorage::q8_0));
  const Checkpoint b = open_checkpoint(second);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const StoredTensor& tensor : a.tensors) {
    const StoredTensor& other = b.require(tensor.name);
    EXPECT_EQ(tensor.type, other.type) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, other.bytes)) << tensor.name;
  }
}

TEST_P(GgufHeads, OfEightBitsDraftAsOften) {
  const auto& [head, drafter] = GetParam();
  const std::string file = written(golden(head), HeadStorage::q8_0);
  EXPECT_NEAR(static_cast<double>(emitted(drafts_of(drafter, file)).size()),
              static_cast<double>(emitted(drafts_of(drafter, head)).size()), 2);
}

/// All values of a matrix as the backend has it.
std::vector<float> values_of(Backend& backend, const Weight& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.rows * weight.cols));
  std::vector<TokenId> rows(static_cast<std::size_t>(weight.rows));
  std::iota(rows.begin(), rows.end(), 0);
  IndexList ids(backend);
  const Buffer copy = backend.allocate(weight.rows, weight.cols);
  backend.embed(weight, ids.put(rows), copy.view());
  backend.download(copy.view(), values);
  return values;
}

TEST_P(GgufHeads, OfFourBitsStayWhatFourBitWeightsMakeOfTheWholeHead) {
  const auto backend = make_cpu_backend({.threads = 1, .pin = false});
  const Model target = load_model(golden_target(), *backend);
  const Checkpoint whole = open_checkpoint(golden(GetParam().first));
  const Checkpoint file = open_checkpoint(written(golden(GetParam().first), HeadStorage::q4_1));
  const HeadWeights int4 = load_head(whole, target, {.layout = WeightLayout::int4});
  const HeadWeights int8 = load_head(file, target, {.layout = WeightLayout::int8});
  const HeadWeights mixed = load_head(file, target, {.mixed = true});
  EXPECT_LT(mixed.pass_bytes, int8.pass_bytes);
  for (const auto matrix : {&LayerWeights::q, &LayerWeights::k, &LayerWeights::gate}) {
    const Weight& stays = *(mixed.layer.*matrix);
    EXPECT_TRUE(stays.exact) << stays.layout;
    EXPECT_FALSE((int8.layer.*matrix)->exact) << (int8.layer.*matrix)->layout;
    EXPECT_EQ(values_of(*backend, stays), values_of(*backend, *(int4.layer.*matrix)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufHeads,
                         testing::Values(std::pair("eagle1_head", "eagle2"),
                                         std::pair("eagle3_head", "eagle3"),
                                         std::pair("eagle3_head_fullvocab", "eagle3")),
                         [](const auto& test) { return std::string(test.param.first); });

TEST(GgufHead, OfAnotherArchitectureIsRefusedByItsKey) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "head.gguf";
  const std::vector<float> fc(2);
  const TensorToWrite tensor = {
      "fc.weight", StorageType::f32, {1, 2}, std::as_bytes(std::span(fc))};
  write_gguf(file, {{"general.architecture", "llama"}}, {&tensor, 1});
  EXPECT_EQ(
      test::message_of([&] { describe_head(open_checkpoint(file)); }),
      "read " + file.string() +
          ": \"general.architecture\": expected eagle3 or eagle, as draft heads have it, found "
          "\"llama\"");
}

TEST(GgufHead, WithAFactorOfAMatrixIsRefusedByItsName) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "head.gguf";
  write_gguf_head(open_checkpoint(TALON_TEST_DATA "/golden/stories260k/eagle3_head"),
                  golden_target(), HeadStorage::f32, file);
  Checkpoint head = open_checkpoint(file);
  StoredTensor factor = head.tensors.front();
  factor.name = "blk.0.attn_q.scale";
  head.tensors.push_back(std::move(factor));
  const std::string message = test::message_of([&] { describe_head(head); });
  EXPECT_NE(message.find("found \"blk.0.attn_q.scale\" besides"), std::string::npos) << message;
}

struct Unwritten {
  const char* part;
  const char* golden_head;
  Convert change;
};

/// A head for vLLM with a norm before attention.
void add_prenorm(HeadFiles& files) {
  files.config["model"] = files.config;
  files.config["model_type"] = "eagle";
  files.config["model"]["skip_prenorm"] = false;
  files.add("layers.0.input_layernorm.weight", {64}, std::vector<float>(64, 1.0F));
}

/// LANTERN's: each head of q and k has a norm of its own.
void add_norms_of_heads(HeadFiles& files) {
  for (const char* part : {"weight", "bias"}) {
    const std::string attention = "layers.0.self_attn.";
    files.add(attention + "q_norm." + part, {8, 8}, std::vector<float>(64, 1.0F));
    files.add(attention + "k_norm." + part, {4, 8}, std::vector<float>(32, 1.0F));
  }
}

const Unwritten kUnwritten[] = {
    {"further layers", "../blocks/peagle/head",
     [](HeadFiles& files) { files.tensors.erase("mask_hidden"); }},
    {"rows of masks (P-EAGLE)", "../blocks/peagle/head", [](HeadFiles&) {}},
    {"a norm before attention", "eagle1_head", add_prenorm},
    {"norms of q and k", "eagle1_head", add_norms_of_heads},
    {"another activation than silu", "eagle3_head",
     [](HeadFiles& files) { files.config["hidden_act"] = "gelu_pytorch_tanh"; }},
};

TEST(GgufHead, IsRefusedByThePartThatItHasNoPlaceFor) {
  for (const Unwritten& unwritten : kUnwritten) {
    HeadFiles files = HeadFiles::read(unwritten.golden_head);
    unwritten.change(files);
    const test::TemporaryFolder folder;
    files.write(folder);
    const std::string message = test::message_of([&] {
      write_gguf_head(open_checkpoint(folder.path()), golden_target(), HeadStorage::f32,
                      folder.path() / "head.gguf");
    });
    EXPECT_NE(
        message.find(std::string("expected parts that GGUF heads have, found ") + unwritten.part),
        std::string::npos)
        << message;
  }
}

TEST(GgufHead, ThatIsStoppedLeavesNothingBehind) {
  const test::TemporaryFolder folder;
  const auto golden = std::filesystem::path(TALON_TEST_DATA) / "golden/stories260k";
  StopFlag stop;
  const auto write = [&] {
    return write_gguf_head(open_checkpoint(golden / "eagle3_head"), golden_target(),
                           HeadStorage::f32, folder.path() / "head.gguf", HeadOutput::in_file,
                           &stop);
  };
  stop.request();
  EXPECT_FALSE(write());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  stop.clear();
  EXPECT_TRUE(write());
}

TEST(HeadWeights, OutputRowsThatAreMostOfAHeadMayBeKeptSmaller) {
  const auto backend = make_cpu_backend({.threads = 2, .pin = false});
  const auto golden = std::filesystem::path(TALON_TEST_DATA) / "golden/stories260k";
  const Model target = load_model(open_checkpoint(golden / "target"), *backend);
  const auto layouts = [&](const std::filesystem::path& path, bool mixed) {
    HeadOptions options;
    options.mixed = mixed;
    const HeadWeights head = load_head(open_checkpoint(path), target, options);
    return std::pair(head.layer.q->layout.substr(0, 1), head.output->layout.substr(0, 1));
  };
  constexpr std::size_t kRows = 448, kWidth = 64;
  HeadFiles files = HeadFiles::read("eagle3_head");
  files.config["draft_vocab_size"] = kRows;
  files.config["intermediate_size"] = 4;
  files.tensors["d2t"] = {"I64", {kRows}, std::string(kRows * 8, '\0')};
  files.tensors["t2d"].bytes = std::string(kRows, '\1') + std::string(512 - kRows, '\0');
  files.add("lm_head.weight", {kRows, kWidth}, std::vector<float>(kRows * kWidth, 0.5F));
  for (const std::string part : {"gate", "up", "down"}) {
    const bool down = part == "down";
    files.add("midlayer.mlp." + part + "_proj.weight", {down ? 64 : 4, down ? 4 : 64},
              std::vector<float>(4 * kWidth, 0.5F));
  }
  const test::TemporaryFolder folder;
  files.write(folder);
  EXPECT_EQ(layouts(folder.path(), true), std::pair(std::string("8"), std::string("4")));
  EXPECT_EQ(layouts(folder.path(), false), std::pair(std::string("8"), std::string("8")));
  EXPECT_EQ(layouts(golden / "eagle3_head", true), std::pair(std::string("8"), std::string("8")))
      << "of 160 rows: the layer is larger";
}

/// A P-EAGLE head without its masks is an EAGLE-3 head of several layers. Both guess the first
/// token alike.
TEST(HeadLayers, OfEagle3MayBeSeveral) {
  const std::string golden = "../blocks/peagle/head";
  const std::vector<TokenId> prompt = {1, 403, 407, 261, 378, 432, 383, 286, 261, 376};
  const auto rounds_of = [&](const std::string& drafter, const HeadFiles& files) {
    const test::TemporaryFolder folder;
    files.write(folder);
    const auto made = eagle_target().make_drafter(drafter, folder.path().string());
    return run_eagle(eagle_target(), *made, prompt, 8);
  };
  HeadFiles files = HeadFiles::read(golden);
  const auto expected = rounds_of("peagle:weights=f32,topk=1,nodes=1,places=1", files);
  files.config["speculators_model_type"] = "eagle3";
  files.tensors.erase("mask_hidden");
  const std::string drafter = "eagle3:weights=f32,topk=1,nodes=1,levels=1";
  const auto found = rounds_of(drafter, files);
  std::erase_if(files.tensors, [](const auto& t) { return t.first.starts_with("layers.1."); });
  const auto of_one_layer = rounds_of(drafter, files);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].tree.tokens(), expected[i].tree.tokens());
    EXPECT_NEAR(found[i].tree[1].log_p, expected[i].tree[1].log_p, 1e-5);
  }
  EXPECT_NE(found[0].tree.log_ps(), of_one_layer[0].tree.log_ps());
}

TEST(HeadTaps, MayHaveTheirNormsUnderSGLangsFirstNames) {
  HeadFiles files = HeadFiles::read("eagle3_head");
  const auto drafts = [&] {
    const test::TemporaryFolder folder;
    files.write(folder);
    return drafts_of("eagle3", folder.path().string());
  };
  for (const auto& [tap, weight] :
       {std::pair("0", 0.5F), std::pair("1", 2.0F), std::pair("2", 1.0F)})
    files.add(std::string("fc_norm.") + tap + ".weight", {64}, std::vector<float>(64, weight));
  const auto expected = drafts();
  files.rename("fc_norm.0.weight", "aux_norm_low.weight");
  files.rename("fc_norm.1.weight", "aux_norm_mid.weight");
  files.rename("fc_norm.2.weight", "aux_norm_high.weight");
  expect_same_drafts(drafts(), expected);
}

TEST(HeadEmbedding, AnEqualCopyOfTheTargetsTableIsNotKeptTwice) {
  const auto golden = std::string(TALON_TEST_DATA) + "/golden/stories260k/eagle1_head";
  const HeadWeights head = load_head(open_checkpoint(golden), eagle_target().model);
  EXPECT_EQ(head.own_embedding, nullptr);
  EXPECT_EQ(head.embedding, eagle_target().model.embedding.get());
}

TEST(HeadEmbedding, ADifferentTableOfTheHeadWins) {
  HeadFiles files = HeadFiles::read("eagle1_head");
  auto table = files.values("embed_tokens.weight");
  for (float& value : table) value = -value;
  files.add("embed_tokens.weight", {512, 64}, table);
  const test::TemporaryFolder folder;
  files.write(folder);
  const HeadWeights head = load_head(open_checkpoint(folder.path()), eagle_target().model);
  ASSERT_NE(head.own_embedding, nullptr);
  EXPECT_EQ(head.embedding, head.own_embedding.get());
  EXPECT_NE(drafts_of("eagle2", folder.path().string())[0].tree.log_ps(),
            drafts_of("eagle2", "eagle1_head")[0].tree.log_ps());
}

}  // namespace
}  // namespace talon::eagle_layouts_test
