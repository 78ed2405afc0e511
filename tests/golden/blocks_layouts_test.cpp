#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "core/error.h"
#include "draft/block/block_config.h"
#include "eagle_head_files.h"
#include "eagle_run.h"
#include "io/formats/write_gguf.h"

namespace talon::blocks_layouts_test {
namespace {

HeadFiles head_of(const std::string& kind) {
  return HeadFiles::read("../blocks/" + kind + "/head");
}

const std::vector<TokenId> kPrompt = {1, 403, 407, 261, 378, 432, 383, 286, 261, 376};

std::vector<EagleRound> rounds_of(const std::string& drafter, const HeadFiles& files) {
  const test::TemporaryFolder folder;
  files.write(folder);
  const auto made = eagle_target().make_drafter(drafter, folder.path().string());
  return run_eagle(eagle_target(), *made, kPrompt, 12);
}

/// AWS's and others': keys lie flat, the token of masks has another name, and its features fewer
/// dimensions.
TEST(BlockLayouts, OfPeagleForVllmAreSpeculatorsUnderOtherKeys) {
  const HeadFiles speculators = head_of("peagle");
  const std::string drafter = "peagle:weights=f32,nodes=9,places=5";
  const auto expected = rounds_of(drafter, speculators);
  const std::vector<float> mask = speculators.values("mask_hidden");
  const auto width = static_cast<std::int64_t>(mask.size());
  for (const char* key : {"ptd_token_id", "pard_token"}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{width}, std::vector<std::int64_t>{1, width}}) {
      HeadFiles files = speculators;
      files.config = speculators.config.at("transformer_layer_config");
      files.config["architectures"] = {"LlamaForCausalLM"};
      files.config["norm_before_residual"] = true;
      files.config["eagle_aux_hidden_state_layer_ids"] = {1, 2, 4};
      files.config[key] = 0;
      files.add("mask_hidden", shape, mask);
      const auto found = rounds_of(drafter, files);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(found[i].tree.tokens(), expected[i].tree.tokens()) << key;
        EXPECT_EQ(found[i].tree.log_ps(), expected[i].tree.log_ps()) << key;
      }
      files.config[key] = 600;
      const std::string message = test::message_of([&] { rounds_of(drafter, files); });
      EXPECT_NE(message.find(fmt::format("\"{}\": expected a token below 512, found 600", key)),
                std::string::npos)
          << message;
    }
  }
}

/// Three layers behind seven: the second of them lies at 2.5.
TEST(BlockLayouts, ThatNameNoLayersTapThoseOfTheOfficialCode) {
  HeadFiles files = head_of("dflash");
  const auto tensors = files.tensors;
  const std::string last = "layers.1.";
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(last)) files.tensors["layers.2." + name.substr(last.size())] = tensor;
  }
  files.config["num_hidden_layers"] = 3;
  files.config["num_target_layers"] = 7;
  files.config.erase("layer_types");
  files.config["dflash_config"].erase("target_layer_ids");
  const test::TemporaryFolder folder;
  files.write(folder);
  const Json head = describe_block_head(open_checkpoint(folder.path()));
  EXPECT_EQ(head["tap_layers"], Json::array({2, 3, 5}));
}

/// Of a target of five layers the usual ones are 1, 2 and 4.
TEST(BlockLayouts, OfSpeculatorsTapTheUsualLayersOrThoseThatAKeyOfEagleNames) {
  HeadFiles files = head_of("dflash");
  const std::string drafter = "dflash:weights=f32,nodes=9";
  const auto expected = rounds_of(drafter, files);
  Json layer = files.config;
  layer.erase("dflash_config");
  layer.erase("architectures");
  files.config = {{"speculators_model_type", "dflash"},
                  {"transformer_layer_config", layer},
                  {"block_size", 8},
                  {"mask_token_id", 0}};
  const auto expect_same = [&] {
    const auto found = rounds_of(drafter, files);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found[i].tree.tokens(), expected[i].tree.tokens());
      EXPECT_EQ(found[i].tree.log_ps(), expected[i].tree.log_ps());
    }
  };
  expect_same();
  files.config["aux_hidden_state_layer_ids"] = nullptr;
  expect_same();
  files.config["eagle_aux_hidden_state_layer_ids"] = {1, 2, 4};
  expect_same();
  files.config["eagle_aux_hidden_state_layer_ids"] = {0, 2, 4};
  EXPECT_NE(rounds_of(drafter, files).back().tree.log_ps(), expected.back().tree.log_ps());
  files.config["aux_hidden_state_layer_ids"] = Json::array();
  const std::string message = test::message_of([&] { rounds_of(drafter, files); });
  EXPECT_NE(message.find("\"aux_hidden_state_layer_ids\": expected a list of target layers"),
            std::string::npos)
      << message;
}

std::string name_in_fork(const std::string& name) {
  static const std::map<std::string, std::string> kNames = {
      {"fc.weight", "dflash_fc.weight"},
      {"hidden_norm.weight", "dflash.hidden_norm.weight"},
      {"norm.weight", "output_norm.weight"},
      {"embed_tokens.weight", "token_embd.weight"},
      {"lm_head.weight", "output.weight"},
      {"markov_head.markov_w1.weight", "dflash.dspark.markov.w1"},
      {"markov_head.markov_w2.weight", "dflash.dspark.markov.w2"},
      {"confidence_head.proj.weight", "dflash.dspark.confidence.weight"},
      {"confidence_head.proj.bias", "dflash.dspark.confidence.bias"}};
  if (const auto known = kNames.find(name); known != kNames.end()) return known->second;
  const std::pair<std::string, std::string> parts[] = {
      {".input_layernorm.", ".attn_norm."},
      {".self_attn.q_proj.", ".attn_q."},
      {".self_attn.k_proj.", ".attn_k."},
      {".self_attn.v_proj.", ".attn_v."},
      {".self_attn.o_proj.", ".attn_output."},
      {".self_attn.q_norm.", ".attn_q_norm."},
      {".self_attn.k_norm.", ".attn_k_norm."},
      {".mlp.gate_proj.", ".ffn_gate."},
      {".mlp.up_proj.", ".ffn_up."},
      {".mlp.down_proj.", ".ffn_down."},
      {".post_attention_layernorm.", ".post_attention_norm."}};
  std::string theirs = "blk" + name.substr(std::string_view("layers").size());
  for (const auto& [from, to] : parts) {
    const std::size_t at = theirs.find(from);
    if (at != theirs.npos) theirs.replace(at, from.size(), to);
  }
  return theirs;
}

/// A head as forks of llama.cpp write it: layers are counted by their outputs.
std::vector<EagleRound> rounds_of_fork(const std::string& drafter, const HeadFiles& files,
                                       const std::string& architecture, const Json& layers) {
  std::deque<std::vector<float>> values;
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, tensor] : files.tensors) {
    values.push_back(files.values(name));
    tensors.push_back({name_in_fork(name), StorageType::f32, tensor.shape,
                       std::as_bytes(std::span(values.back()))});
  }
  GgufMetadata keys;
  keys.emplace_back("general.architecture", architecture);
  const auto add = [&](const char* key, const Json& value) {
    keys.emplace_back(architecture + "." + key, value);
  };
  add("block_count", 2U);
  add("attention.head_count", 8U);
  add("attention.key_length", 8U);
  add("attention.layer_norm_rms_epsilon", files.config.at("rms_norm_eps"));
  add("rope.freq_base", 10000.0F);
  add("dflash.block_size", files.config.at("block_size"));
  add("dflash.mask_token_id", 0U);
  add("dflash.target.block_count", 5U);
  add("dflash.target_layer_ids", layers);
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "head.gguf";
  write_gguf(file, keys, tensors);
  const auto made = eagle_target().make_drafter(drafter, file.string());
  return run_eagle(eagle_target(), *made, kPrompt, 12);
}

TEST(BlockLayouts, OfForksOfLlamaCppAreTheOfficialOnesUnderOtherNames) {
  for (const char* name : {"dflash", "dspark"}) {
    const std::string kind = name;
    const HeadFiles files = head_of(kind);
    const std::string drafter = kind + ":weights=f32,nodes=9";
    const auto expected = rounds_of(drafter, files);
    for (const char* architecture : {"dflash-draft", "qwen35-dflash-draft"}) {
      const auto found = rounds_of_fork(drafter, files, architecture, Json::array({0U, 1U, 3U}));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(found[i].tree.tokens(), expected[i].tree.tokens()) << kind;
        EXPECT_EQ(found[i].tree.log_ps(), expected[i].tree.log_ps()) << kind;
      }
    }
    const std::string message =
        test::message_of([&] { rounds_of_fork(drafter, files, "dflash-draft", Json::array()); });
    EXPECT_NE(message.find("\"dflash-draft.dflash.target_layer_ids\": expected a list of target"),
              std::string::npos)
        << message;
  }
}

/// As the configurations of Qwen say it that list no layers.
TEST(BlockLayouts, WithoutAListOfLayersSlideFromMaxWindowLayersOn) {
  const HeadFiles full = head_of("dflash");
  HeadFiles listed = full, qwen = full;
  listed.config["layer_types"][1] = "sliding_attention";
  listed.config["sliding_window"] = qwen.config["sliding_window"] = 3;
  qwen.config.erase("layer_types");
  qwen.config["max_window_layers"] = 1;
  const std::string drafter = "dflash:weights=f32,nodes=9";
  const auto all = rounds_of(drafter, full), expected = rounds_of(drafter, listed);
  EXPECT_EQ(rounds_of(drafter, qwen).back().tree.log_ps(), all.back().tree.log_ps());
  qwen.config["use_sliding_window"] = true;
  EXPECT_EQ(rounds_of(drafter, qwen).back().tree.log_ps(), expected.back().tree.log_ps());
  EXPECT_NE(expected.back().tree.log_ps(), all.back().tree.log_ps());
}

TEST(BlockLayouts, GuessAsManyPlacesAsAreAskedFor) {
  for (const char* kind : {"dflash", "dspark", "peagle"}) {
    for (const int places : {1, 2, 4}) {
      const std::string drafter = fmt::format("{}:topk=1,places={}", kind, places);
      EXPECT_EQ(rounds_of(drafter, head_of(kind))[0].tree.draft_nodes(), places) << drafter;
    }
  }
}

/// ModelOpt's DSpark has DFlash's architecture, other names and all keys in one place.
TEST(BlockLayouts, OfModelOptAndDSparkAreDeepSpecsUnderOtherNames) {
  const std::vector<float> zeros(48 * 96);
  const auto add = [&](HeadFiles& files, const std::string& name, std::int64_t rows,
                       std::int64_t cols) {
    files.add(name + ".weight", {rows, cols}, {zeros.begin(), zeros.begin() + rows * cols});
    files.add(name + ".bias", {rows}, {zeros.begin(), zeros.begin() + rows});
  };
  for (const char* kind : {"vanilla", "gated", "rnn"}) {
    HeadFiles official = head_of("dspark");
    official.config["markov_head_type"] = kind;
    if (kind == std::string("gated")) add(official, "markov_head.gate_proj", 16, 80);
    if (kind == std::string("rnn")) add(official, "markov_head.joint_proj", 48, 96);
    HeadFiles files = official;
    files.config["architectures"] = {"DFlashDraftModel"};
    for (const char* key :
         {"target_layer_ids", "mask_token_id", "markov_rank", "markov_head_type"}) {
      files.config["dflash_config"][key] = official.config.at(key);
      files.config.erase(key);
    }
    files.config["dflash_config"]["projector_type"] = "dspark";
    files.config["dflash_config"]["shift_label"] = true;
    files.config.erase("confidence_head_with_markov");
    files.rename_prefix("markov_head.", "");
    files.rename_prefix("confidence_head.proj.", "confidence_proj.");
    const std::string drafter = "dspark:weights=f32,nodes=9,stop=0.1";
    expect_same_drafts(rounds_of(drafter, files), rounds_of(drafter, official));
  }
}

TEST(BlockLayouts, TellByATensorWhatConfidenceReads) {
  HeadFiles files = head_of("dspark");
  files.config.erase("confidence_head_with_markov");
  EXPECT_FALSE(rounds_of("dspark:stop=0.1", files).empty());
  files.add("confidence_head.proj.weight", {1, 64}, std::vector<float>(64));
  EXPECT_FALSE(rounds_of("dspark:stop=0.1", files).empty());
}

TEST(BlockLayouts, OfDominoAndDflareAreRefusedByTheirArchitecture) {
  for (const std::string name : {"DominoDraftModel", "QwenDFlareDraftModel"}) {
    HeadFiles files = head_of("dflash");
    files.config["architectures"] = Json::array({name});
    const std::string message = test::message_of([&] { rounds_of("dflash", files); });
    EXPECT_NE(message.find("\"architectures\": expected DFlashDraftModel"), std::string::npos)
        << message;
    EXPECT_NE(message.find("found [\"" + name + "\"]"), std::string::npos) << message;
  }
}

TEST(BlockLayouts, OfAngelSlimAreOfficialOnesUnderAnotherName) {
  HeadFiles files = head_of("dflash");
  const std::string drafter = "dflash:weights=f32,nodes=9";
  const auto expected = rounds_of(drafter, files);
  files.config["architectures"] = {"QwenDFlashDraftModel"};
  expect_same_drafts(rounds_of(drafter, files), expected);
}

TEST(BlockLayouts, WithoutConfidenceCannotEndBranchesByIt) {
  HeadFiles files = head_of("dspark");
  files.tensors.erase("confidence_head.proj.weight");
  files.tensors.erase("confidence_head.proj.bias");
  EXPECT_FALSE(rounds_of("dspark", files).empty());
  std::string message = "accepted";
  try {
    rounds_of("dspark:stop=0.5", files);
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("option stop: expected 0 for"), std::string::npos) << message;
}

}  // namespace
}  // namespace talon::blocks_layouts_test
