#include "model/config/quantization.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace talon::quantization_test {
namespace {

Quantization read(const Json& quantization) {
  const Json config = {{"quantization_config", quantization}};
  return *read_quantization(ConfigKeys(config, "config.json"));
}

std::string refusal(const Json& quantization) {
  try {
    read(quantization);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_named(const Json& quantization, const std::string& key) {
  EXPECT_NE(refusal(quantization).find('"' + key + "\": expected"), std::string::npos)
      << quantization << ": " << refusal(quantization);
}

TEST(Quantization, FormatOfGptqIsToldByOldAndNewKeysInAnyLetters) {
  Json gptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}};
  EXPECT_TRUE(read(gptq).zeros_less_1);
  for (const char* key : {"format", "checkpoint_format"}) {
    Json with = gptq;
    with[key] = "gptq_v2";
    EXPECT_FALSE(read(with).zeros_less_1) << key;
    with[key] = "GPTQ_V2";
    EXPECT_FALSE(read(with).zeros_less_1) << key;
    with[key] = "marlin";
    expect_named(with, key);
  }
}

TEST(Quantization, GptqHasTwoToFourBitsOrEight) {
  for (const int bits : {2, 3, 4, 8}) {
    EXPECT_EQ(read({{"quant_method", "gptq"}, {"bits", bits}}).bits, bits);
  }
  for (const int bits : {1, 5, 7, 16}) {
    expect_named({{"quant_method", "gptq"}, {"bits", bits}}, "bits");
  }
}

TEST(Quantization, AGroupOfMinus1IsAllInputsAndOf0Nothing) {
  for (const char* method : {"gptq", "awq"}) {
    Json keys = {{"quant_method", method}, {"bits", 4}, {"group_size", -1}};
    EXPECT_EQ(read(keys).group, 0) << method;
    keys["group_size"] = 0;
    expect_named(keys, "group_size");
    keys["group_size"] = -2;
    expect_named(keys, "group_size");
    keys["group_size"] = 1;
    EXPECT_EQ(read(keys).group, 1) << method;
  }
}

Quantization read_mlx_groups(const Json& groups) {
  const Json config = {{"quantization", groups}, {"quantization_config", groups}};
  return *read_quantization(ConfigKeys(config, "config.json"));
}

TEST(Quantization, GroupsOfMlxAreThoseOfTheWholeOrOfAMatrix) {
  const Quantization q = read_mlx_groups({{"group_size", 128},
                                          {"bits", 3},
                                          {"lm_head", {{"group_size", 32}, {"bits", 6}}},
                                          {"model.norm", false},
                                          {"model.embed_tokens", Json::object()}});
  EXPECT_EQ(q.method, Quantization::Method::mlx);
  EXPECT_EQ(q.groups_of("model.layers.0.mlp.up_proj.weight").bits, 3);
  EXPECT_EQ(q.groups_of("model.layers.0.mlp.up_proj.weight").inputs, 128);
  EXPECT_EQ(q.groups_of("lm_head.weight").bits, 6);
  EXPECT_EQ(q.groups_of("lm_head.weight").inputs, 32);
  EXPECT_EQ(q.groups_of("model.embed_tokens.weight").bits, 4);  // as MLX takes it
  EXPECT_EQ(q.groups_of("model.embed_tokens.weight").inputs, 64);
}

TEST(Quantization, OtherGroupsOfMlxAreRefusedByName) {
  const std::pair<const char*, Json> refusals[] = {{"bits", 1},        {"bits", 7},
                                                   {"bits", 9},        {"bits", "4"},
                                                   {"group_size", 16}, {"group_size", 96},
                                                   {"group_size", 48}, {"group_size", 0},
                                                   {"mode", "mxfp6"},  {"mode", Json::array()}};
  for (const auto& [key, value] : refusals) {
    for (const bool of_matrix : {false, true}) {
      Json groups = {{"group_size", 64}, {"bits", 4}};
      (of_matrix ? groups["lm_head"] : groups)[key] = value;
      try {
        read_mlx_groups(groups);
        ADD_FAILURE() << groups;
      } catch (const Error& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find(std::string("\"") + key + "\": expected"), std::string::npos)
            << message;
      }
    }
  }
}

TEST(Quantization, SmallFloatsOfMlxHaveTheBitsAndGroupsOfTheirMode) {
  using Codes = Quantization::Groups::Codes;
  struct Mode {
    const char* name;
    Codes codes;
    int bits, inputs;
  };
  for (const Mode& mode : {Mode{"mxfp4", Codes::mxfp4, 4, 32}, Mode{"nvfp4", Codes::nvfp4, 4, 16},
                           Mode{"mxfp8", Codes::mxfp8, 8, 32}}) {
    const Json whole = {{"mode", mode.name}, {"bits", mode.bits}, {"group_size", mode.inputs}};
    for (const Json& said : {whole, Json{{"mode", mode.name}}}) {
      const Quantization q = read_mlx_groups(said);
      EXPECT_EQ(q.groups.codes, mode.codes);
      EXPECT_EQ(q.groups.bits, mode.bits);
      EXPECT_EQ(q.groups.inputs, mode.inputs);
    }
    Json groups = whole;
    groups["lm_head"] = {{"bits", 6}};  // as MLX takes it
    EXPECT_EQ(read_mlx_groups(groups).groups_of("lm_head.weight").codes, Codes::affine);
    EXPECT_EQ(read_mlx_groups({{"lm_head", whole}}).groups_of("lm_head.weight").codes, mode.codes);
    for (const char* key : {"bits", "group_size"}) {
      groups = whole;
      groups[key] = 64;
      try {
        read_mlx_groups(groups);
        ADD_FAILURE() << groups;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
      }
    }
  }
}

TEST(Quantization, MayBeSaidOfTheTextModelAlone) {
  const Json fp8 = {{"quant_method", "fp8"}}, awq = {{"quant_method", "awq"}, {"bits", 4}};
  Json config = {{"text_config", {{"quantization_config", awq}}}};
  const auto found = read_quantization(ConfigKeys(config, "config.json"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->method, Quantization::Method::awq);
  config["quantization_config"] = fp8;  // of the whole
  EXPECT_EQ(read_quantization(ConfigKeys(config, "config.json"))->method,
            Quantization::Method::float_blocks);
  config = {{"text_config", Json::object()}};
  EXPECT_FALSE(read_quantization(ConfigKeys(config, "config.json")));
}

TEST(Quantization, OtherOrdersOfAwqAreRefusedUnderEveryKey) {
  const Json awq = {{"quant_method", "awq"}, {"bits", 4}};
  EXPECT_EQ(read(awq).group, 128);
  const auto with = [&](const char* key, const char* value) {
    Json changed = awq;
    changed[key] = value;
    return changed;
  };
  EXPECT_EQ(refusal(with("version", "GEMM")), "");
  expect_named(with("version", "gemv"), "version");
  expect_named(with("format", "gemv"), "format");
  expect_named(with("backend", "llm-awq"), "backend");
}

TEST(Quantization, Fp8WithoutSizesOfBlocksHasOneScale) {
  const Quantization q = read({{"quant_method", "fp8"}, {"weight_block_size", nullptr}});
  EXPECT_EQ(q.method, Quantization::Method::float_blocks);
  EXPECT_EQ(q.block_rows, 0);
}

Json compressed() {
  const Json weights = {
      {"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 32}};
  return {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}},
          {"sparsity_config", Json::object()},
          {"transform_config", Json::object()}};
}

Json transformed(const char* location) {
  const Json apply = Json::array({{{"targets", {"re:.*q_proj"}}, {"location", location}}});
  Json config = compressed();
  config["transform_config"] = {
      {"config_groups", {{"R1", {{"type", "hadamard"}, {"apply", apply}}}}}};
  return config;
}

TEST(Quantization, TransformsOfInputsAreRefused) {
  EXPECT_EQ(refusal(compressed()), "");
  EXPECT_EQ(refusal(transformed("weight_input")), "");
  EXPECT_EQ(refusal(transformed("weight_output")), "");
  for (const char* location : {"input", "output", "k_cache", "q_attn"}) {
    EXPECT_NE(refusal(transformed(location)).find("transform_config"), std::string::npos);
  }
}

TEST(Quantization, SparseAndContradictoryFormatsAreRefused) {
  Json config = compressed();
  config["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  EXPECT_NE(refusal(config).find("sparsity_config"), std::string::npos);
  config = compressed();
  config["config_groups"]["group_0"]["format"] = "int-quantized";
  expect_named(config, "format");
  config["config_groups"]["group_0"]["format"] = "pack-quantized";
  config["format"] = "mixed-precision";
  EXPECT_EQ(read(config).method, Quantization::Method::packed);
  config["config_groups"]["group_0"]["format"] = "mxfp4-pack-quantized";
  expect_named(config, "format");
}

TEST(Quantization, Nvfp4OfBothMakersHasGroupsOf16) {
  Json config = compressed();
  config["format"] = "nvfp4-pack-quantized";
  expect_named(config, "group_size");
  Json& weights = config["config_groups"]["group_0"]["weights"];
  weights = {{"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}};
  EXPECT_EQ(read(config).method, Quantization::Method::nvfp4);
  Json modelopt = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"group_size", 16}};
  EXPECT_EQ(read(modelopt).method, Quantization::Method::nvfp4);
  EXPECT_EQ(read(modelopt).group, 16);
  modelopt["group_size"] = 32;
  expect_named(modelopt, "group_size");
}

TEST(Quantization, OtherAlgorithmsOfModelOptAreRefused) {
  Json modelopt = {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}};
  EXPECT_EQ(read(modelopt).method, Quantization::Method::floats);
  for (const Json& algorithm : {Json("NVFP4_AWQ"), Json("MIXED_PRECISION"), Json(4), Json()}) {
    modelopt["quant_algo"] = algorithm;
    expect_named(modelopt, "quant_algo");
  }
}

TEST(Quantization, ModelOptMaySayItInAFileOfItsOwn) {
  const Json beside = {{"producer", {{"name", "modelopt"}}},
                       {"quantization", {{"quant_algo", "NVFP4"}, {"group_size", 16}}}};
  Json config = {{"hf_quant_config", beside}};
  EXPECT_EQ(read_quantization(ConfigKeys(config, "config.json"))->method,
            Quantization::Method::nvfp4);
  config["text_config"]["quantization_config"] = {{"quant_method", "fp8"}};
  EXPECT_EQ(read_quantization(ConfigKeys(config, "config.json"))->method,
            Quantization::Method::float_blocks);
}

TEST(Quantization, BitsAndBytesHasFourOrEightBits) {
  Json config = {{"quant_method", "bitsandbytes"},
                 {"load_in_4bit", true},
                 {"load_in_8bit", false},
                 {"bnb_4bit_quant_storage", "uint8"}};
  EXPECT_EQ(read(config).bits, 4);
  config["bnb_4bit_quant_storage"] = "bfloat16";
  expect_named(config, "bnb_4bit_quant_storage");
  config.erase("bnb_4bit_quant_storage");
  config["load_in_8bit"] = true;
  expect_named(config, "load_in_4bit");
  config["load_in_4bit"] = false;
  EXPECT_EQ(read(config).bits, 8);
  config["load_in_8bit"] = false;
  expect_named(config, "load_in_4bit");
}

TEST(Quantization, WholeNumbersMayHaveZeroPointsAndFloatsNot) {
  Json config = compressed();
  config["format"] = "int-quantized";
  Json& weights = config["config_groups"]["group_0"]["weights"];
  weights["symmetric"] = false;
  for (const int bits : {4, 8}) {
    weights["num_bits"] = bits;
    EXPECT_EQ(read(config).bits, bits);
    EXPECT_FALSE(read(config).symmetric);
  }
  config["format"] = "float-quantized";
  expect_named(config, "symmetric");
  weights["symmetric"] = true;
  EXPECT_EQ(read(config).block_cols, 32);
  EXPECT_EQ(read(config).block_rows, 1);
  weights["num_bits"] = 4;
  expect_named(config, "num_bits");
}

TEST(Quantization, ANaiveFormatIsToldByTheTypeOfItsCodes) {
  Json config = compressed();
  config["format"] = "naive-quantized";
  EXPECT_EQ(read(config).method, Quantization::Method::whole_numbers);
  Json& weights = config["config_groups"]["group_0"]["weights"];
  weights["type"] = "float";
  weights["num_bits"] = 8;
  EXPECT_EQ(read(config).method, Quantization::Method::floats);
}

TEST(Quantization, OfCompressedTensorsMayHaveItsFirstName) {
  Json config = {{"compression_config", compressed()}};
  EXPECT_EQ(read_quantization(ConfigKeys(config, "config.json"))->method,
            Quantization::Method::packed);
  config["quantization_config"] = {{"quant_method", "fp8"}};
  EXPECT_EQ(read_quantization(ConfigKeys(config, "config.json"))->method,
            Quantization::Method::float_blocks);
}

}  // namespace
}  // namespace talon::quantization_test
