#include "model/config/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"

namespace talon::config_test {
namespace {

Checkpoint checkpoint(CheckpointFormat format, Json metadata,
                      std::vector<StoredTensor> tensors = {}) {
  return {format, "some/model", std::move(metadata), std::move(tensors), {}, {}};
}

Json gguf_metadata(const std::string& architecture) {
  return {{"general.architecture", architecture},
          {architecture + ".block_count", 2},
          {architecture + ".embedding_length", 64},
          {architecture + ".feed_forward_length", 172},
          {architecture + ".context_length", 512},
          {architecture + ".attention.head_count", 8},
          {architecture + ".attention.head_count_kv", 4},
          {architecture + ".attention.layer_norm_rms_epsilon", 1e-5},
          {"tokenizer.ggml.eos_token_id", 2},
          {"tokenizer.ggml.tokens", {"<|endoftext|>", "a", "b"}}};
}

ModelConfig read_gguf(const Json& metadata, std::vector<StoredTensor> more = {}) {
  more.push_back({"token_embd.weight", StorageType::f32, {300, 64}, {}});
  return read_model_config(checkpoint(CheckpointFormat::gguf, metadata, std::move(more)));
}

Json hugging_face_json(const std::string& type) {
  return {{"model_type", type},
          {"num_hidden_layers", 4},
          {"hidden_size", 64},
          {"intermediate_size", 172},
          {"max_position_embeddings", 32768},
          {"vocab_size", 512},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 50000.0},
          {"eos_token_id", 7}};
}

ModelConfig read_hugging_face(const Json& json) {
  return read_model_config(checkpoint(CheckpointFormat::hugging_face, json));
}

template <typename Read>
std::string message_of(Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_contains(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks: " << part;
  }
}

TEST(GgufConfig, LlamaKeysAreReadAndItsRotaryOrderIsPairwise) {
  const ModelConfig c = read_gguf(gguf_metadata("llama"));
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.layers, 2);
  EXPECT_EQ(c.head_dim, 8);
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.vocabulary, 300);
  EXPECT_EQ(c.context, 512);
  EXPECT_EQ(c.rope.base, 10000);
  EXPECT_TRUE(c.tied_output);
  EXPECT_TRUE(c.interleaved_rope);
  EXPECT_FALSE(c.qk_norm);
  EXPECT_EQ(c.end_tokens,
            (std::vector<TokenId>{2, 0}));  // the file's own, then the one known by its text
}

TEST(GgufConfig, EndsAtMarksAndNotAtTextsOfTheSameLetters) {
  Json metadata = gguf_metadata("gemma3");
  metadata["tokenizer.ggml.tokens"] = {"</s>", "<end_of_turn>", "<eos>"};
  EXPECT_EQ(read_gguf(metadata).end_tokens, (std::vector<TokenId>{2, 0, 1}));
  for (const int type : {1, 4}) {
    metadata["tokenizer.ggml.token_type"] = {type, 3, 3};
    EXPECT_EQ(read_gguf(metadata).end_tokens, (std::vector<TokenId>{2, 1})) << type;
  }
  metadata["tokenizer.ggml.tokens"] = {"a", "<|im_end|>", "<eos>"};  // added by who trained on
  metadata["tokenizer.ggml.token_type"] = {1, 4, 3};
  EXPECT_EQ(read_gguf(metadata).end_tokens, (std::vector<TokenId>{2, 1}));
  metadata["tokenizer.ggml.tokens"][1] = "<|observation|>";  // GLM-4's before what a call gave
  EXPECT_EQ(read_gguf(metadata).end_tokens, (std::vector<TokenId>{2, 1}));
}

TEST(GgufConfig, TheEndOfAMessageIsNotThatOfAnAnswerWhereAnotherTokenReturns) {
  Json metadata = gguf_metadata("llama");
  metadata["tokenizer.ggml.tokens"] = {"<|end|>", "<|call|>", "<|return|>"};
  metadata["tokenizer.ggml.token_type"] = {3, 3, 3};
  metadata["tokenizer.ggml.eot_token_id"] = 0;
  EXPECT_EQ(read_gguf(metadata).end_tokens, (std::vector<TokenId>{2, 1}));
  metadata["tokenizer.ggml.tokens"][2] = "<eos>";
  EXPECT_EQ(read_gguf(metadata).end_tokens, (std::vector<TokenId>{2, 0, 1}));
  metadata.erase("tokenizer.ggml.eot_token_id");
  EXPECT_EQ(read_gguf(metadata).end_tokens, (std::vector<TokenId>{2, 1, 0}));
}

TEST(GgufConfig, QwenHasBiasesOrNormsAndHalfSplitOrder) {
  const std::vector<StoredTensor> bias = {{"blk.0.attn_q.bias", StorageType::f32, {64}, {}}};
  const ModelConfig qwen2 = read_gguf(gguf_metadata("qwen2"), bias);
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.interleaved_rope);
  Json metadata = gguf_metadata("qwen3");
  metadata["qwen3.attention.key_length"] = 16;
  const ModelConfig qwen3 = read_gguf(metadata);
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_dim, 16);
}

TEST(GgufConfig, ScalingsAreRead) {
  Json metadata = gguf_metadata("llama");
  metadata["llama.rope.scaling.type"] = "yarn";
  metadata["llama.rope.scaling.factor"] = 4.0;
  metadata["llama.rope.scaling.original_context_length"] = 128;
  const ModelConfig c = read_gguf(metadata);
  EXPECT_EQ(c.rope.scaling, RopeConfig::Scaling::yarn);
  EXPECT_NEAR(c.rope.attention_factor, 1.1386294, 1e-6);
  metadata.erase("llama.rope.scaling.original_context_length");
  EXPECT_EQ(read_gguf(metadata).rope.original_context, 512);
  const float divisors[4] = {1, 1, 2, 8};
  const ModelConfig llama3 =
      read_gguf(gguf_metadata("llama"),
                {{"rope_freqs.weight", StorageType::f32, {4}, std::as_bytes(std::span(divisors))}});
  EXPECT_EQ(llama3.rope.frequency_divisors, (std::vector<float>{1, 1, 2, 8}));
}

TEST(GgufConfig, YarnIsRefusedWithTheBaseThatItWouldDivideByTheLogarithmOf) {
  Json metadata = gguf_metadata("llama");
  metadata["llama.rope.freq_base"] = 1.0;
  EXPECT_EQ(read_gguf(metadata).rope.base, 1);
  metadata["llama.rope.scaling.type"] = "yarn";
  metadata["llama.rope.scaling.original_context_length"] = 128;
  expect_contains(message_of([&] { read_gguf(metadata); }),
                  {"llama.rope.freq_base", "more than 1 beside YaRN", "1"});
}

TEST(GgufConfig, BadValuesAreRefusedByFileKeyExpectedAndFound) {
  struct Bad {
    std::string key;
    Json value;
  };
  const Bad bad[] = {{"llama.block_count", 0},
                     {"llama.block_count", -1},
                     {"llama.block_count", 18446744073709551615U},
                     {"llama.block_count", "two"},
                     {"llama.block_count", nullptr},
                     {"llama.embedding_length", 2147483648U},
                     {"llama.embedding_length", 60},
                     {"llama.context_length", 1U << 31U},
                     {"llama.attention.head_count", 0},
                     {"llama.attention.layer_norm_rms_epsilon", -1.0},
                     {"llama.attention.key_length", 4096},
                     {"llama.rope.dimension_count", 10},
                     {"llama.rope.dimension_count", 3},
                     {"llama.rope.freq_base", 0.0},
                     {"llama.rope.scaling.type", "dynamic"},
                     {"general.architecture", "gpt2"},
                     {"tokenizer.ggml.eos_token_id", 300}};
  for (const auto& [key, value] : bad) {
    Json metadata = gguf_metadata("llama");
    metadata[key] = value;
    const std::string message = message_of([&] { read_gguf(metadata); });
    expect_contains(message, {"some/model", "\"" + key + "\"", "expected", "found"});
  }
  Json heads = gguf_metadata("llama");
  heads["llama.attention.head_count_kv"] = 3;
  expect_contains(message_of([&] { read_gguf(heads); }), {"some/model", "3 key-value", "found 8"});
}

TEST(HuggingFaceConfig, LlamaKeysAreRead) {
  const ModelConfig c = read_hugging_face(hugging_face_json("llama"));
  EXPECT_EQ(c.hidden, 64);
  EXPECT_EQ(c.context, 32768);
  EXPECT_EQ(c.rope.base, 50000);
  EXPECT_FALSE(c.tied_output);
  EXPECT_FALSE(c.interleaved_rope);
  EXPECT_EQ(c.end_tokens, std::vector<TokenId>{7});
  Json several = hugging_face_json("llama");
  several["eos_token_id"] = {7, 9};
  several["attention_bias"] = true;
  several["tie_word_embeddings"] = true;
  const ModelConfig more = read_hugging_face(several);
  EXPECT_EQ(more.end_tokens, (std::vector<TokenId>{7, 9}));
  EXPECT_TRUE(more.qkv_bias && more.output_bias && more.tied_output);
}

TEST(HuggingFaceConfig, EverySpellingOfRopeScalingIsUnderstood) {
  Json json = hugging_face_json("llama");
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  EXPECT_EQ(read_hugging_face(json).rope.scaling, RopeConfig::Scaling::linear);
  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};
  const ModelConfig llama3 = read_hugging_face(json);
  EXPECT_EQ(llama3.rope.scaling, RopeConfig::Scaling::llama3);
  EXPECT_EQ(llama3.rope.original_context, 8192);
  json.erase("rope_scaling");
  json.erase("rope_theta");
  json["rope_parameters"] = {{"rope_type", "yarn"},   {"rope_theta", 1e6},
                             {"factor", 4.0},         {"mscale", 1.0},
                             {"mscale_all_dim", 0.7}, {"original_max_position_embeddings", 32768}};
  const ModelConfig yarn = read_hugging_face(json);
  EXPECT_EQ(yarn.rope.scaling, RopeConfig::Scaling::yarn);
  EXPECT_EQ(yarn.rope.base, 1e6);
  EXPECT_NEAR(yarn.rope.attention_factor, 1.03791002, 1e-7);
  EXPECT_EQ(yarn.context, 131072);
  json["rope_parameters"]["factor"] = nullptr;
  json["rope_parameters"]["original_max_position_embeddings"] = 4096;
  const ModelConfig contexts = read_hugging_face(json);
  EXPECT_EQ(contexts.rope.factor, 8);  // 32768 of 4096
  EXPECT_EQ(contexts.context, 32768);
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 123.0}};
  EXPECT_EQ(read_hugging_face(json).rope.scaling, RopeConfig::Scaling::none);
  EXPECT_EQ(read_hugging_face(json).rope.base, 123);
  json["rope_parameters"] = {{"rope_type", "dynamic"}, {"rope_theta", 123.0}, {"factor", 4.0}};
  const ModelConfig dynamic = read_hugging_face(json);
  EXPECT_EQ(dynamic.rope.scaling, RopeConfig::Scaling::none);
  EXPECT_EQ(dynamic.context, 32768);  // from there on the frequencies would be others
}

TEST(HuggingFaceConfig, YarnIsRefusedWithTheBaseThatItWouldDivideByTheLogarithmOf) {
  Json json = hugging_face_json("llama");
  json["rope_theta"] = 1.0;
  json["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}};
  const auto read = [&] { read_hugging_face(json); };
  expect_contains(message_of(read), {"rope_theta", "more than 1 beside YaRN"});
  json["rope_theta"] = 10000.0;
  EXPECT_EQ(message_of(read), "no error");
  json["rope_scaling"]["rope_theta"] = 1.0;
  expect_contains(message_of(read), {"rope_theta", "more than 1 beside YaRN"});
}

TEST(HuggingFaceConfig, MissingKeysAreThoseOfTheFamilysClass) {
  Json json = hugging_face_json("llama");
  json.erase("rope_theta");
  EXPECT_EQ(read_hugging_face(json).rope.base, 1e4);
  json["model_type"] = "gemma3_text";
  EXPECT_EQ(read_hugging_face(json).rope.base, 1e6);
  json["rope_theta"] = 2e4;
  EXPECT_EQ(read_hugging_face(json).rope.base, 2e4);
  // As the larger models of Gemma 3 are published.
  const Json sparse = {{"model_type", "gemma3"},
                       {"text_config",
                        {{"model_type", "gemma3_text"},
                         {"hidden_size", 2560},
                         {"num_hidden_layers", 34},
                         {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                         {"sliding_window", 1024}}}};
  const ModelConfig gemma = read_hugging_face(sparse);
  EXPECT_EQ(gemma.rope.base, 1e6);
  EXPECT_EQ(gemma.rope.factor, 8);
  ASSERT_TRUE(gemma.local_rope);
  EXPECT_EQ(gemma.local_rope->base, 1e4);
  Json glm = hugging_face_json("glm4");
  EXPECT_EQ(read_hugging_face(glm).rope.rotary, 4);
  glm["partial_rotary_factor"] = 1.0;
  EXPECT_EQ(read_hugging_face(glm).rope.rotary, 0);
}

TEST(HuggingFaceConfig, LlamaFourIsReadAsItIsPublished) {
  Json text = hugging_face_json("llama4_text");
  text.update(Json{{"max_position_embeddings", 10485760},
                   {"no_rope_layers", Json::array()},
                   {"attn_temperature_tuning", 4},
                   {"intermediate_size_mlp", 128},
                   {"num_local_experts", 4},
                   {"num_experts_per_tok", 1},
                   {"rope_scaling",
                    {{"rope_type", "llama3"},
                     {"factor", 16.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 1.0},
                     {"original_max_position_embeddings", 8192}}}});
  const ModelConfig c = read_hugging_face({{"model_type", "llama4"}, {"text_config", text}});
  EXPECT_EQ(c.context, 10485760);
  EXPECT_EQ(c.rope.high_frequency_factor, 1);
  ASSERT_EQ(c.plans.size(), 4U);
  EXPECT_NE(c.plans[2].rope, LayerPlan::Rope::none);
  EXPECT_EQ(c.plans[3].rope, LayerPlan::Rope::none);
  EXPECT_TRUE(c.plans[3].scales_queries);
  text["attn_temperature_tuning"] = 0;
  const ModelConfig plain = read_hugging_face({{"model_type", "llama4"}, {"text_config", text}});
  EXPECT_FALSE(plain.plans[3].scales_queries);
}

TEST(HuggingFaceConfig, AnOutputMatrixThatNobodySpeaksOfIsTheEmbedding) {
  const StoredTensor embedding{"model.embed_tokens.weight", StorageType::f32, {512, 64}, {}};
  const StoredTensor output{"lm_head.weight", StorageType::f32, {512, 64}, {}};
  const auto tied = [&](const Json& json, std::vector<StoredTensor> tensors) {
    return read_model_config(checkpoint(CheckpointFormat::hugging_face, json, std::move(tensors)))
        .tied_output;
  };
  Json json = hugging_face_json("llama");
  EXPECT_TRUE(tied(json, {embedding}));
  EXPECT_FALSE(tied(json, {embedding, output}));
  json["tie_word_embeddings"] = false;
  EXPECT_FALSE(tied(json, {embedding}));
}

TEST(HuggingFaceConfig, TheWholeModelMayTieAnOutputMatrixThatItsTextModelDoesNot) {
  const std::string prefix = "model.language_model.";
  const StoredTensor embedding{prefix + "embed_tokens.weight", StorageType::f32, {512, 64}, {}};
  const StoredTensor output{"lm_head.weight", StorageType::f32, {512, 64}, {}};
  Json text = hugging_face_json("qwen3_vl_text");
  text["tie_word_embeddings"] = false;
  const auto tied = [&](bool whole, std::vector<StoredTensor> tensors) {
    const Json json = {
        {"model_type", "qwen3_vl"}, {"tie_word_embeddings", whole}, {"text_config", text}};
    return read_model_config(checkpoint(CheckpointFormat::hugging_face, json, std::move(tensors)))
        .tied_output;
  };
  EXPECT_TRUE(tied(true, {embedding}));
  EXPECT_FALSE(tied(true, {embedding, output}));
  EXPECT_FALSE(tied(false, {embedding}));
}

TEST(HuggingFaceConfig, ActivationsAreThoseThatTheModelReads) {
  Json json = hugging_face_json("llama");
  json["hidden_act"] = "swish";
  EXPECT_EQ(read_hugging_face(json).hidden, 64);
  Json gemma = hugging_face_json("gemma2");
  gemma["hidden_act"] = "gelu";
  expect_contains(message_of([&] { read_hugging_face(gemma); }), {"hidden_act", "gelu"});
  gemma["hidden_activation"] = "gelu_pytorch_tanh";
  EXPECT_EQ(read_hugging_face(gemma).hidden, 64);
  gemma["model_type"] = "gemma3_text";
  gemma["use_bidirectional_attention"] = true;
  expect_contains(message_of([&] { read_hugging_face(gemma); }), {"use_bidirectional_attention"});
  Json neox = hugging_face_json("gpt_neox");
  EXPECT_EQ(read_hugging_face(neox).plans[0].activation, InputTransform::gelu_erf);
  for (const char* name : {"gelu_fast", "gelu_new"}) {
    neox["hidden_act"] = name;
    EXPECT_EQ(read_hugging_face(neox).plans[0].activation, InputTransform::gelu_tanh) << name;
  }
  neox["hidden_act"] = "relu";
  expect_contains(message_of([&] { read_hugging_face(neox); }), {"hidden_act", "relu"});
}

TEST(HuggingFaceConfig, WindowsAreThoseOfTheFamily) {
  Json mistral = hugging_face_json("mistral");
  mistral["sliding_window"] = 4096;
  EXPECT_EQ(read_hugging_face(mistral).sliding_window, 4096);
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(read_hugging_face(mistral).sliding_window, 0);
  Json qwen = hugging_face_json("qwen2");
  qwen["sliding_window"] = 4096;
  EXPECT_EQ(read_hugging_face(qwen).sliding_window, 0);
  EXPECT_TRUE(read_hugging_face(qwen).qkv_bias);
  EXPECT_FALSE(read_hugging_face(qwen).output_bias);
  qwen["use_sliding_window"] = true;
  qwen["max_window_layers"] = 4;  // of 4: no layer has one
  EXPECT_EQ(read_hugging_face(qwen).sliding_window, 0);
  qwen["max_window_layers"] = 0;
  EXPECT_EQ(read_hugging_face(qwen).sliding_window, 4096);
  qwen["max_window_layers"] = 2;
  const std::vector<LayerPlan> plans = read_hugging_face(qwen).plans;
  ASSERT_EQ(plans.size(), 4U);
  for (std::size_t i = 0; i < plans.size(); ++i) EXPECT_EQ(plans[i].window, i < 2 ? 0 : 4096);
}

TEST(HuggingFaceConfig, WhatItCannotRunIsRefused) {
  struct Bad {
    std::string key;
    Json value;
  };
  const Bad bad[] = {{"model_type", "mamba"},
                     {"model_type", nullptr},
                     {"hidden_act", "gelu"},
                     {"mlp_bias", 1},
                     {"quantization_config", {{"bits", 4}}},
                     {"num_hidden_layers", 1e9},
                     {"num_hidden_layers", 1.5},
                     {"vocab_size", -3},
                     {"head_dim", 0},
                     {"hidden_size", 65},
                     {"rms_norm_eps", "small"},
                     {"eos_token_id", {1, -1}},
                     {"tie_word_embeddings", "yes"},
                     {"rope_scaling", "linear"},
                     {"sliding_window", -1}};
  for (const auto& [key, value] : bad) {
    Json json = hugging_face_json("llama");
    json[key] = value;
    const std::string message = message_of([&] { read_hugging_face(json); });
    expect_contains(message, {"config.json", "\"" + key + "\"", "expected", "found"});
  }
  Json scaling = hugging_face_json("llama");
  scaling["rope_scaling"] = {{"rope_type", "ntk"}, {"factor", 2.0}};
  expect_contains(message_of([&] { read_hugging_face(scaling); }),
                  {"rope_scaling", "rope_type", "found \"ntk\""});
  expect_contains(message_of([&] { read_hugging_face(Json::array()); }), {"expected an object"});
}

TEST(HuggingFaceConfig, GenerationConfigOfAStrangerIsReadWithBounds) {
  const std::filesystem::path folder = testing::TempDir() + "/talon_generation_config";
  std::filesystem::create_directories(folder);
  const auto read_beside = [&](const std::string& text) {
    std::ofstream(folder / "generation_config.json") << text;
    Checkpoint stored = checkpoint(CheckpointFormat::hugging_face, hugging_face_json("llama"));
    stored.path = folder;
    return read_model_config(stored);
  };
  EXPECT_EQ(read_beside("{\"eos_token_id\": [7, 9]}").end_tokens, (std::vector<TokenId>{7, 9}));
  const std::string deep(100000, '[');
  for (const std::string& text : {deep, deep + std::string(100000, ']'), std::string("{"),
                                  std::string("[]"), std::string("{\"a\": 1, \"a\": 2}")}) {
    expect_contains(message_of([&] { read_beside(text); }), {"generation_config.json"});
  }
  std::filesystem::remove_all(folder);
}

TEST(Llama2cConfig, HeaderBecomesAPairwiseLlama) {
  const ModelConfig c =
      read_model_config(checkpoint(CheckpointFormat::llama2c, {{"dim", 288},
                                                               {"hidden_dim", 768},
                                                               {"n_layers", 6},
                                                               {"n_heads", 6},
                                                               {"n_kv_heads", 6},
                                                               {"vocab_size", 32000},
                                                               {"seq_len", 256}}));
  EXPECT_EQ(c.head_dim, 48);
  EXPECT_EQ(c.start_token, 1);
  EXPECT_TRUE(c.interleaved_rope && c.tied_output);
}

TEST(ModelConfig, AHeadAloneIsNotATarget) {
  expect_contains(
      message_of([] { read_model_config(checkpoint(CheckpointFormat::torch_bin, {})); }),
      {"some/model", "expected a GGUF file"});
}

}  // namespace
}  // namespace talon::config_test
