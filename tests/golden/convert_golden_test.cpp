#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "convert/convert_model.h"
#include "core/error.h"
#include "io/formats/write_gguf.h"
#include "io/formats/write_safetensors.h"
#include "io/quant/quantize.h"
#include "io/test_files.h"
#include "maker_data.h"
#include "model_run.h"

// Models converted to GGUF: against the files that llama.cpp's converter made of the same folders,
// and against the folders themselves.
namespace talon::convert_golden_test {
namespace {

namespace fs = std::filesystem;

using Rows = std::vector<std::vector<float>>;
using MakeBackend = std::unique_ptr<Backend> (*)();

const fs::path kStories = fs::path(TALON_TEST_DATA) / "models/stories260K.bin";
constexpr TokenId kIds[] = {1, 5, 9, 20, 3, 7, 11, 2, 8,  15, 30, 4,  6,  12, 18, 25, 9, 1,
                            2, 3, 4, 5,  6, 7, 8,  9, 10, 11, 12, 13, 14, 15, 16, 17, 18};

std::unique_ptr<Backend> reference() { return make_reference_backend(2); }
std::unique_ptr<Backend> rounded() {
  return make_cpu_backend({.threads = 2, .activations = Activations::mixed, .pin = false});
}

Rows run(const fs::path& model, MakeBackend make, std::span<const TokenId> ids) {
  constexpr int kContext = 320;
  ModelRun run(model, make(), KvType::f32, kContext);
  Rows rows;
  run.run(ids, 0, [&](int, std::span<const float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
  });
  return rows;
}

/// A place of this process for files of the test.
fs::path place(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / fmt::format("talon_convert_{}", getpid());
  fs::create_directories(folder);
  return folder / name;
}

fs::path convert(const fs::path& model, const std::string& name,
                 std::optional<StorageType> type = std::nullopt) {
  const fs::path file = place(name + ".gguf");
  convert_model(open_checkpoint(model), file, {.type = type, .stop = nullptr, .progress = {}});
  return file;
}

void expect_same_bytes(const fs::path& model, const fs::path& converted,
                       std::span<const TokenId> ids) {
  for (const MakeBackend make : {reference, rounded}) {
    EXPECT_TRUE(run(model, make, ids) == run(converted, make, ids)) << converted;
  }
}

/// GGUF has another order of value heads for Qwen 3.5, so sums have another order there.
void expect_same_answers(const std::string& family, const fs::path& model,
                         const fs::path& converted, std::span<const TokenId> ids) {
  if (!family.starts_with("qwen3_5")) return expect_same_bytes(model, converted, ids);
  const Rows expected = run(model, reference, ids), found = run(converted, reference, ids);
  for (std::size_t row = 0; row < expected.size(); ++row) {
    for (std::size_t id = 0; id < expected[row].size(); ++id) {
      ASSERT_NEAR(found[row][id], expected[row][id], 3e-4) << row << ", " << id;
    }
  }
}

std::vector<float> values_of(const StoredTensor& tensor) {
  std::size_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= static_cast<std::size_t>(size);
  std::vector<float> values(count);
  dequantize(tensor.type, tensor.bytes, values);
  return values;
}

void expect_all_of(const Checkpoint& expected, const Checkpoint& found) {
  EXPECT_EQ(found.metadata, expected.metadata);
  ASSERT_EQ(found.tensors.size(), expected.tensors.size());
  for (const StoredTensor& tensor : expected.tensors) {
    EXPECT_TRUE(std::ranges::equal(found.require(tensor.name).bytes, tensor.bytes)) << tensor.name;
  }
}

class ConvertMakers : public testing::TestWithParam<std::string> {
 protected:
  static const MakerRecording& recording() {
    static std::map<std::string, MakerRecording> unpacked;
    if (!unpacked.contains(GetParam())) unpacked[GetParam()] = unpack_maker(GetParam());
    return unpacked[GetParam()];
  }
};

/// Whether theirs has a key of a part that sees, or of Granite 4 one of layers and experts that the
/// model has not, or that says what is so without it, as that no layers of K-EXAONE predict.
/// Nemotron's has the epsilon of LayerNorms under the name of RMSNorm's, too.
bool says_nothing(const std::string& family, const std::string& key) {
  if (key.ends_with(".n_deepstack_layers")) return true;
  if (family.starts_with("nemotron") && key.ends_with(".layer_norm_rms_epsilon")) return true;
  if (family == "exaone_moe" && key.ends_with(".nextn_predict_layers")) return true;
  // Of a model without rotation a context without an end, and rotary columns of other heads.
  if (family.starts_with("nemotron_h")) {
    return key.ends_with(".context_length") || key.ends_with(".rope.dimension_count");
  }
  if (!family.starts_with("granite4")) return false;
  if (family.starts_with("granite4_hybrid")) {  // of models without rotation it names no context
    const bool of_experts = key.find(".expert_") != std::string::npos;
    return key.ends_with(".context_length") || (family == "granite4_hybrid" && of_experts);
  }
  if (family == "granite4" && key.starts_with("granite.expert_")) return true;
  return key.find(".ssm.") != std::string::npos || key.ends_with(".attention.head_count_kv") ||
         key.ends_with(".rope.scaling.finetuned");
}

/// To llama.cpp one row is a vector.
std::vector<std::int64_t> without_ones(std::vector<std::int64_t> shape) {
  while (shape.size() > 1 && shape[0] == 1) shape.erase(shape.begin());
  return shape;
}

TEST_P(ConvertMakers, HasTheTensorsAndKeysOfLlamaCppsConverter) {
  const Checkpoint theirs = open_checkpoint(recording().gguf);
  const Checkpoint ours = open_checkpoint(convert(recording().folder, GetParam()));
  ASSERT_EQ(ours.tensors.size(), theirs.tensors.size());
  for (const StoredTensor& expected : theirs.tensors) {
    const StoredTensor* tensor = ours.find(expected.name);
    ASSERT_NE(tensor, nullptr) << expected.name;
    EXPECT_EQ(without_ones(tensor->shape), without_ones(expected.shape)) << expected.name;
    // Theirs has rows of layers that do not turn in pairwise order, too, which no score depends on.
    const bool still = GetParam() == "smollm3" && (expected.name == "blk.3.attn_q.weight" ||
                                                   expected.name == "blk.3.attn_k.weight");
    EXPECT_TRUE(still || values_of(*tensor) == values_of(expected)) << expected.name;
  }
  for (const auto& [key, value] : theirs.metadata.items()) {
    const bool of_file = key.starts_with("general.") || key.starts_with("tokenizer.") ||
                         key.ends_with("rope.scaling.type");  // which may say "none"
    if (of_file || says_nothing(GetParam(), key)) continue;
    EXPECT_EQ(ours.metadata.value(key, Json()), value) << key;
  }
}

TEST_P(ConvertMakers, AnswersAsTheFolder) {
  const auto file = convert(recording().folder, GetParam());
  expect_same_answers(GetParam(), recording().folder, file, recording().sequences[1].ids);
}

INSTANTIATE_TEST_SUITE_P(
    Families, ConvertMakers,
    testing::Values("mistral", "phi3", "ministral3", "olmo3", "granite", "glm4", "cohere2",
                    "gpt_neox", "gemma2", "gemma3", "gemma4", "gemma4_e", "gemma4_moe", "qwen3_moe",
                    "gpt_oss", "glm4_moe", "deepseek_v3", "qwen3_next", "qwen3_5", "mixtral",
                    "qwen2_moe", "smollm3", "olmo2", "starcoder2", "granitemoeshared", "granite4",
                    "granite4_moe", "deepseek_v2", "deepseek_v2_lite", "qwen3_5_moe", "mimo",
                    "olmoe", "exaone4", "seed_oss", "ernie4_5", "ernie4_5_moe", "glm4_moe_lite",
                    "qwen3_vl", "qwen3_vl_moe", "qwen2_5_vl", "gemma", "cohere", "glm", "stablelm",
                    "minicpm", "hunyuan", "arcee", "nemotron", "command_r_plus", "stablelm_12b",
                    "phi2", "arcee_bias", "nemotron_bias", "llama_bias", "mistral4",
                    "granite4_hybrid", "granite4_hybrid_moe", "lfm2", "lfm2_moe", "falcon_h1",
                    "falcon_h1_norm", "nemotron_h", "nemotron_h_moe", "apertus", "minimax_m2",
                    "hunyuan_moe", "exaone_moe", "dots1", "afmoe", "mellum", "bailing_moe", "hy_v3",
                    "phimoe"),
    [](const auto& tested) { return tested.param; });

/// Families without a recording, as random folders.
class ConvertTiny : public testing::TestWithParam<std::string> {};

TEST_P(ConvertTiny, AnswersAsTheFolder) {
  const fs::path made = place("made");
  const std::string maker = fmt::format("python3 '{}' '{}' {} > /dev/null", TALON_TINY_FOLDERS,
                                        made.string(), GetParam());
  ASSERT_EQ(std::system(maker.c_str()), 0) << maker;
  const fs::path file = convert(made / GetParam(), GetParam());
  expect_same_answers(GetParam(), made / GetParam(), file, kIds);
}

INSTANTIATE_TEST_SUITE_P(Families, ConvertTiny,
                         testing::Values("mixtral", "qwen2_moe", "smollm3", "starcoder2", "olmo2",
                                         "granitemoe", "granitemoeshared", "granite4",
                                         "granite4_moe", "deepseek_v2", "qwen3_5_moe"),
                         [](const auto& tested) { return tested.param; });

/// A copy of a model's folder with some keys of its configuration changed.
fs::path changed(const fs::path& model, const std::string& name, const Json& keys) {
  const fs::path folder = place(name);
  fs::create_directories(folder);
  fs::copy_file(model / "model.safetensors", folder / "model.safetensors");
  Json config = Json::parse(std::ifstream(model / "config.json"));
  config.merge_patch(keys);
  std::ofstream(folder / "config.json") << config;
  return folder;
}

TEST(ConvertModel, AnswersAsALlama4FolderWithTheConstantsOfGguf) {
  const MakerRecording llama4 = unpack_maker("llama4");
  const Json text = {{"attention_chunk_size", 8192}, {"floor_scale", 8192}, {"attn_scale", 0.1}};
  const fs::path folder = changed(llama4.folder, "constants", {{"text_config", text}});
  expect_same_bytes(folder, convert(folder, "llama4"), llama4.sequences[1].ids);
}

/// As Devstral 2 has it.
TEST(ConvertModel, AnswersAsAMinistral3FolderWithQueriesThatAreNotScaled) {
  const MakerRecording ministral3 = unpack_maker("ministral3");
  const Json rope = {{"mscale_all_dim", 0.0}, {"llama_4_scaling_beta", 0.0}};
  const Json unscaled = {{"text_config", {{"rope_parameters", rope}}}};
  const fs::path folder = changed(ministral3.folder, "unscaled", unscaled);
  expect_same_bytes(folder, convert(folder, "ministral3"), ministral3.sequences[1].ids);
}

TEST(ConvertModel, RefusesByItsNameWhatGgufCannotSay) {
  const fs::path qwen2 = fs::path(TALON_TEST_DATA) / "golden/families/qwen2_window";
  const Json some_layers = {{"layer_types", {"full_attention", "sliding_attention"}}};
  const Json other_scale = {{"query_pre_attn_scalar", 99}};
  // Of which GGUF's pattern of six has no full one, so no rotation of such layers.
  const Json few_layers = {
      {"num_hidden_layers", 4},
      {"layer_types",
       {"sliding_attention", "full_attention", "sliding_attention", "sliding_attention"}}};
  const Json limits = {{"time_step_limit", {0.001, 0.1}}};
  const std::pair<fs::path, const char*> refusals[] = {
      {changed(unpack_maker("granite4_hybrid").folder, "limits", limits),
       "layer 0: least step of the state: expected"},
      {changed(unpack_maker("gemma3").folder, "few", few_layers),
       "rotary columns: expected 24 as in the model, found rotary (windowed layers) columns in"},
      {unpack_maker("llama4").folder, "query scaling"},  // a constant of GGUF's
      {changed(unpack_maker("gemma2").folder, "scale", other_scale), "layer 0: scale of scores"},
      {unpack_maker("phi2_norms").folder, "layer 0: norms of heads"},
      {changed(unpack_maker("phimoe").folder, "jitter", {{"router_jitter_noise", 0.02}}),
       "layer 0: jitter of the router"},
      {changed(qwen2, "windows", some_layers), "layer 0: window of attention"}};
  for (const auto& [folder, expected] : refusals) {
    const std::string message = test::message_of([&] { convert(folder, "refused"); });
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    EXPECT_FALSE(fs::exists(place("refused.gguf")));
  }
}

TEST(ConvertModel, KeepsTheTypesOfQuantisedFoldersThatGgufHas) {
  const std::map<std::string, StorageType> types = {
      {"awq", StorageType::q8_0},           {"compressed_int4", StorageType::q4_0},
      {"compressed_fp8", StorageType::f32}, {"compressed_int4_asym", StorageType::q8_0},
      {"fp8_blocks", StorageType::f32},     {"gptq", StorageType::f32},
      {"bnb_nf4", StorageType::bf16},       {"bnb_int8", StorageType::f32},
      {"modelopt_nvfp4", StorageType::f32}, {"mlx", StorageType::q4_1},
      {"mlx_mxfp4", StorageType::mxfp4},    {"mlx_nvfp4", StorageType::nvfp4},
      {"mlx_mxfp8", StorageType::bf16}};
  for (const auto& [name, type] : types) {
    const QuantizedRecording recording = unpack_quantized(name);
    const fs::path file = convert(recording.folder, name);
    EXPECT_EQ(open_checkpoint(file).require("blk.1.attn_q.weight").type, type) << name;
    expect_same_bytes(recording.folder, file, recording.ids);
  }
}

/// A mixture with each matrix of an expert in codes of a byte and one scale: those of one expert
/// lie from -7 to 7, those of the others further apart.
fs::path with_experts_in_bytes(const fs::path& model, const std::string& name) {
  const fs::path folder = place(name);
  fs::create_directories(folder);
  const Checkpoint from = open_checkpoint(model);
  const float scale = 1.0F / 32;
  std::deque<std::vector<std::byte>> made;
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : from.tensors) {
    if (tensor.name.find(".experts.") == std::string::npos) {
      tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
      continue;
    }
    const bool narrow = tensor.name.find("layers.1.mlp.experts.2.") != std::string::npos;
    const std::int64_t most = narrow ? 7 : 100, count = tensor.shape[0] * tensor.shape[1];
    auto& codes = made.emplace_back();
    for (std::int64_t i = 0; i < count; ++i) {
      codes.push_back(static_cast<std::byte>(i * 37 % (2 * most + 1) - most + 128));
    }
    const std::vector<std::int64_t> words = {tensor.shape[0], tensor.shape[1] / 4};
    tensors.push_back({tensor.name + "_packed", StorageType::i32, words, codes});
    tensors.push_back(
        {tensor.name + "_scale", StorageType::f32, {1}, std::as_bytes(std::span(&scale, 1))});
  }
  write_safetensors(folder / "model.safetensors", tensors);
  const Json weights = {{"num_bits", 8}, {"strategy", "tensor"}};
  Json config = Json::parse(std::ifstream(model / "config.json"));
  config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                   {"format", "pack-quantized"},
                                   {"config_groups", {{"all", {{"weights", weights}}}}}};
  std::ofstream(folder / "config.json") << config;
  return folder;
}

TEST(ConvertModel, ExpertsOfUnlikeTypesGetTheSmallestThatHoldsAllOfThem) {
  const MakerRecording qwen3 = unpack_maker("qwen3_moe");
  const fs::path folder = with_experts_in_bytes(qwen3.folder, "bytes");
  const fs::path file = convert(folder, "bytes");
  const Checkpoint converted = open_checkpoint(file);
  for (const char* part : {"gate", "up", "down"}) {
    const std::string name = fmt::format("blk.1.ffn_{}_exps.weight", part);
    EXPECT_EQ(converted.require(name).type, StorageType::q8_0) << name;
  }
  EXPECT_TRUE(run(folder, reference, kIds) == run(file, reference, kIds));
}

TEST(ConvertModel, SaysRotaryScalingsAndWindowsOfLlamaLikeFolders) {
  for (const char* name : {"llama3_scaling_bias", "llama_linear", "llama_yarn", "mistral_window",
                           "qwen2", "qwen2_window", "qwen3"}) {
    const fs::path folder = fs::path(TALON_TEST_DATA) / "golden/families" / name;
    expect_same_bytes(folder, convert(folder, name), kIds);
  }
}

TEST(ConvertModel, KeepsTheEndTokensOfAFolderWithoutATokenizer) {
  Checkpoint folder = open_checkpoint(fs::path(TALON_TEST_DATA) / "golden/families/qwen3");
  folder.metadata["eos_token_id"] = {7, 9};
  const fs::path file = place("ends.gguf");
  convert_model(folder, file, {});
  EXPECT_EQ(read_model_config(open_checkpoint(file)).end_tokens, (std::vector<TokenId>{7, 9}));
  folder.metadata["eos_token_id"] = {7, 9, 11, 13};
  EXPECT_THROW(convert_model(folder, place("many.gguf"), {}), Error);
}

TEST(ConvertModel, StoresMatricesInTheTypeThatWasAskedFor) {
  const Checkpoint plain = open_checkpoint(convert(kStories, "stories"));
  const Checkpoint eight = open_checkpoint(convert(kStories, "stories8", StorageType::q8_0));
  EXPECT_EQ(plain.metadata.at("tokenizer.ggml.tokens").size(), 512U);
  for (const StoredTensor& tensor : plain.tensors) {
    const StoredTensor& stored = eight.require(tensor.name);
    const bool matrix = tensor.shape.size() == 2;
    const bool blocks = tensor.shape.back() % 32 == 0;
    EXPECT_EQ(stored.type, !matrix  ? StorageType::f32
                           : blocks ? StorageType::q8_0
                                    : StorageType::f16)
        << tensor.name;
  }
  const StoredTensor& table = plain.require("token_embd.weight");
  const auto expected = quantize_q8_0(values_of(table));
  EXPECT_TRUE(std::ranges::equal(eight.require("token_embd.weight").bytes, expected));
}

TEST(ConvertModel, KeepsAllOfAGguf) {
  const Checkpoint model = open_checkpoint(convert(kStories, "kept", StorageType::q8_0));
  expect_all_of(model, open_checkpoint(convert(place("kept.gguf"), "again")));
}

TEST(ConvertModel, NeverReplacesAFileThatItReads) {
  const fs::path folder = place("own");
  fs::create_directories(folder);
  const fs::path file = folder / "model.bin", link = folder / "link.gguf";
  fs::copy_file(kStories, file);
  fs::create_symlink(file, link);
  const Checkpoint model = open_checkpoint(file);
  for (const fs::path& target : {file, link, folder / "." / "model.bin"}) {
    EXPECT_THROW(convert_model(model, target, {}), Error) << target;
  }
  EXPECT_EQ(open_checkpoint(file).format, CheckpointFormat::llama2c);
}

TEST(ConvertModel, PutsAGgufOfSeveralFilesTogether) {
  const Checkpoint whole = open_checkpoint(convert(kStories, "whole"));
  std::vector<TensorToWrite> tensors;
  for (const StoredTensor& tensor : whole.tensors) {
    tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
  }
  constexpr std::size_t kFirst = 20;
  const auto write = [&](unsigned number, std::span<const TensorToWrite> part) {
    GgufMetadata keys = {{"split.no", number},
                         {"split.count", 2U},
                         {"split.tensors.count", static_cast<unsigned>(tensors.size())}};
    if (number == 0) {
      for (const auto& [key, value] : whole.metadata.items()) keys.emplace_back(key, value);
    }
    write_gguf(place(fmt::format("cut-0000{}-of-00002.gguf", number + 1)), keys, part);
  };
  write(0, std::span(tensors).first(kFirst));
  write(1, std::span(tensors).subspan(kFirst));
  expect_all_of(whole, open_checkpoint(convert(place("cut-00001-of-00002.gguf"), "together")));
}

/// The name of another part of the same layer's queries, keys and values; empty: it is none.
std::string part_beside(std::string name, const char* part) {
  for (const char* own : {"attn_q.", "attn_k.", "attn_v."}) {
    const std::size_t at = name.find(own);
    if (at != std::string::npos) return name.replace(at, std::strlen(own), part);
  }
  return "";
}

/// What `llama.cpp`'s converter makes with --fuse-qkv: rows of queries, keys and values in one
/// matrix, in layers that have all three.
fs::path with_fused_rows(const fs::path& model, const std::string& name) {
  const Checkpoint file = open_checkpoint(model);
  std::vector<std::vector<std::byte>> joined;
  std::vector<TensorToWrite> tensors;
  GgufMetadata keys;
  for (const auto& [key, value] : file.metadata.items()) keys.emplace_back(key, value);
  joined.reserve(file.tensors.size());
  for (const StoredTensor& tensor : file.tensors) {
    const bool joins = file.find(part_beside(tensor.name, "attn_v.")) != nullptr;
    if (joins && part_beside(tensor.name, "attn_q.") != tensor.name) continue;
    std::string to = joins ? part_beside(tensor.name, "attn_qkv.") : tensor.name;
    std::vector<std::byte>& bytes = joined.emplace_back();
    std::vector<std::int64_t> shape = tensor.shape;
    shape[0] = 0;
    for (const char* part : {"attn_q.", "attn_k.", "attn_v."}) {
      const std::string from = joins ? part_beside(tensor.name, part) : tensor.name;
      const StoredTensor& rows = file.require(from);
      bytes.insert(bytes.end(), rows.bytes.begin(), rows.bytes.end());
      shape[0] += rows.shape[0];
      if (!joins) break;
    }
    tensors.push_back({std::move(to), tensor.type, std::move(shape), bytes});
  }
  const fs::path fused = place(name + "_fused.gguf");
  write_gguf(fused, keys, tensors);
  return fused;
}

TEST(ConvertModel, OneMatrixOfQueriesKeysAndValuesIsTheSameModelInAnyFamily) {
  for (const char* name :
       {"mistral", "olmo2", "qwen2_moe", "cohere2", "gemma4", "gemma4_e", "qwen3_5", "glm"}) {
    const MakerRecording model = unpack_maker(name);
    expect_same_bytes(model.gguf, with_fused_rows(model.gguf, name), model.sequences[0].ids);
  }
}

TEST(ConvertModel, LeavesNothingBehindWhenItIsStopped) {
  StopFlag stop;
  ConvertOptions options;
  options.stop = &stop;
  options.progress = [&](std::uint64_t, std::uint64_t) { stop.request(); };  // amid the writing
  const fs::path folder = place("stopped");
  fs::create_directories(folder);
  const Checkpoint model = open_checkpoint(kStories);
  EXPECT_THROW(convert_model(model, folder / "model.gguf", options), Interrupted);
  EXPECT_TRUE(fs::is_empty(folder));
}

}  // namespace
}  // namespace talon::convert_golden_test
