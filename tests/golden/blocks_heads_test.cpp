#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>

#include "core/error.h"
#include "draft/registry.h"
#include "eagle_head_files.h"
#include "eagle_run.h"
#include "io/formats/write_gguf.h"

namespace talon::blocks_heads_test {
namespace {

HeadFiles head_of(const std::string& kind) {
  return HeadFiles::read("../blocks/" + kind + "/head");
}

std::string refusal_of(const std::string& drafter, const HeadFiles& files) {
  const test::TemporaryFolder folder;
  files.write(folder);
  try {
    eagle_target().make_drafter(drafter, folder.path().string());
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<float> zeros(std::size_t count) { return std::vector<float>(count); }

struct BadHead {
  const char* drafter;
  const char* kind;
  const char* expected;  // a part of the message
  std::function<void(HeadFiles&)> spoil;
};
void PrintTo(const BadHead& bad, std::ostream* out) { *out << bad.expected; }

/// The words of the message that is expected: a test's name has letters, digits and '_' only.
constexpr auto message_name = [](const auto& tested) {
  std::string name;
  for (const char c : std::string_view(tested.param.expected)) {
    const bool allowed = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (allowed || !name.ends_with('_')) name += allowed ? c : '_';
  }
  return name;
};

const BadHead kBadHeads[] = {
    {"dflash", "dflash", "\"num_target_layers\": expected 5, found 6",
     [](HeadFiles& files) { files.config["num_target_layers"] = 6; }},
    {"dflash", "dflash", "tap layer: expected one that enters a layer below 5, found 5",
     [](HeadFiles& files) {
       files.config["dflash_config"]["target_layer_ids"] = {0, 1, 4};
     }},
    {"dflash", "dflash", "\"fc.weight\": expected 128 columns, those of 2 target layers, found 192",
     [](HeadFiles& files) {
       files.config["dflash_config"]["target_layer_ids"] = {0, 1};
     }},
    {"dflash", "dflash", "\"mask_token_id\": expected a token below 512, found 512",
     [](HeadFiles& files) { files.config["dflash_config"]["mask_token_id"] = 512; }},
    {"dflash", "dflash", "\"vocab_size\": expected 512, found 500",
     [](HeadFiles& files) { files.config["vocab_size"] = 500; }},
    {"dflash", "dflash", "\"block_size\": expected an integer in 2..64, found 1",
     [](HeadFiles& files) { files.config["block_size"] = 1; }},
    {"dflash", "dflash", "\"num_hidden_layers\": expected the 2 layers",
     [](HeadFiles& files) { files.config["num_hidden_layers"] = 3; }},
    {"dflash", "dflash", "\"layer_types\": expected full_attention or sliding_attention",
     [](HeadFiles& files) { files.config["layer_types"][1] = "linear_attention"; }},
    {"dflash", "dflash", "\"architectures\": expected DFlashDraftModel",
     [](HeadFiles& files) { files.config["architectures"] = {"DFlash2DraftModel"}; }},
    {"dflash", "dflash", "found \"layers.0.self_attn.g_proj.weight\" besides",
     [](HeadFiles& files) {
       files.add("layers.0.self_attn.g_proj.weight", {64, 64}, zeros(64 * 64));
     }},
    {"dflash", "dflash", "\"layers.1.self_attn.k_proj.weight\": expected [32, 64], found [64, 64]",
     [](HeadFiles& files) {
       files.add("layers.1.self_attn.k_proj.weight", {64, 64}, zeros(64 * 64));
     }},
    {"dflash", "dspark", "use dspark", [](HeadFiles&) {}},
    {"dspark", "dflash", "use dflash", [](HeadFiles&) {}},
    {"dspark", "dspark", "\"markov_head_type\": expected vanilla, gated or rnn, found \"fir\"",
     [](HeadFiles& files) { files.config["markov_head_type"] = "fir"; }},
    {"dspark", "dspark", "\"markov_rank\": expected 16, as its tensor has, found 8",
     [](HeadFiles& files) { files.config["markov_rank"] = 8; }},
    {"dspark", "dspark", "rows of \"markov_head.markov_w1.weight\": expected 512, found 300",
     [](HeadFiles& files) {
       auto rows = files.values("markov_head.markov_w1.weight");
       rows.resize(std::size_t{300} * 16);
       files.add("markov_head.markov_w1.weight", {300, 16}, rows);
     }},
    {"dspark", "dspark", "\"confidence_head.proj.weight\": expected [1, 80], found [1, 64]",
     [](HeadFiles& files) {
       files.add("confidence_head.proj.weight", {1, 64}, zeros(64));
     }},
    {"peagle", "peagle", "\"mask_hidden\": expected [1, 1, 192], found [1, 1, 64]",
     [](HeadFiles& files) {
       files.add("mask_hidden", {1, 1, 64}, zeros(64));
     }},
    {"peagle", "peagle", "\"mask_token_id\": expected a token below 512, found 600",
     [](HeadFiles& files) { files.config["mask_token_id"] = 600; }},
    {"peagle", "peagle", "\"num_hidden_layers\": expected the 2 layers that have tensors, found 4",
     [](HeadFiles& files) { files.config["transformer_layer_config"]["num_hidden_layers"] = 4; }},
    {"eagle3", "peagle", "use peagle", [](HeadFiles&) {}},
    {"eagle3", "dspark",
     "expected a head for eagle, eagle2, eagle3 or peagle, found one for dflash",
     [](HeadFiles&) {}},
    {"peagle", "dflash", "found one for dflash or dspark", [](HeadFiles&) {}},
    {"medusa", "peagle", "expected a head for medusa, found one for eagle", [](HeadFiles&) {}},
    {"peagle", "peagle", "found an EAGLE-3 one in",
     [](HeadFiles& files) {
       files.tensors.erase("mask_hidden");
       std::erase_if(files.tensors, [](const auto& t) { return t.first.starts_with("layers.1."); });
     }},
};

class BadBlockHeads : public testing::TestWithParam<BadHead> {};

TEST_P(BadBlockHeads, AreRefusedByTheFieldThatDisagrees) {
  HeadFiles files = head_of(GetParam().kind);
  GetParam().spoil(files);
  const std::string message = refusal_of(GetParam().drafter, files);
  EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
}
INSTANTIATE_TEST_SUITE_P(All, BadBlockHeads, testing::ValuesIn(kBadHeads), message_name);

const std::vector<TokenId> kPrompt = {1, 403, 407, 261, 378, 432, 383, 286, 261, 376};

std::vector<EagleRound> rounds_of(const std::string& drafter, const HeadFiles& files) {
  const test::TemporaryFolder folder;
  files.write(folder);
  const auto made = eagle_target().make_drafter(drafter, folder.path().string());
  return run_eagle(eagle_target(), *made, kPrompt, 12);
}

void expect_equal_trees(const std::vector<EagleRound>& a, const std::vector<EagleRound>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tree.tokens(), b[i].tree.tokens());
    EXPECT_EQ(a[i].tree.log_ps(), b[i].tree.log_ps());
  }
}

/// speculators counts the layers that a stream enters, the official files those it leaves.
TEST(BlockHeads, OfSpeculatorsAreTheOfficialOnesUnderOtherKeys) {
  const HeadFiles official = head_of("dflash");
  HeadFiles files = official;
  Json layer = files.config;
  layer.erase("dflash_config");
  layer.erase("architectures");
  files.config = {{"speculators_model_type", "dflash"},
                  {"transformer_layer_config", layer},
                  {"block_size", 8},
                  {"mask_token_id", 0},
                  {"aux_hidden_state_layer_ids", {1, 2, 4}}};
  const std::string drafter = "dflash:weights=f32,nodes=9";
  expect_equal_trees(rounds_of(drafter, files), rounds_of(drafter, official));
}

/// SpecForge names DSpark's architecture otherwise and nests its keys.
TEST(BlockHeads, OfSpecForgeAreDeepSpecsUnderOtherKeys) {
  const HeadFiles official = head_of("dspark");
  HeadFiles files = official;
  files.config["architectures"] = {"DSparkDraftModel"};
  for (const char* key : {"target_layer_ids", "mask_token_id", "markov_rank", "markov_head_type",
                          "confidence_head_with_markov"}) {
    files.config["dflash_config"][key] = official.config.at(key);
    files.config.erase(key);
  }
  files.rename_prefix("markov_head.", "logit_head.markov_head.");
  const std::string drafter = "dspark:weights=f32,nodes=9";
  expect_equal_trees(rounds_of(drafter, files), rounds_of(drafter, official));
  files.config["dflash_config"]["shift_label"] = false;
  EXPECT_EQ(rounds_of("dspark:topk=1", files)[0].tree.draft_nodes() + 1,
            rounds_of("dspark:topk=1", official)[0].tree.draft_nodes());
  files.config["dflash_config"]["markov_head_type"] = "fir";
  EXPECT_NE(refusal_of("dspark", files).find("\"markov_head_type\": expected vanilla"),
            std::string::npos);
}

/// SpecForge's P-EAGLE has no keys of speculators, and counts layers by their outputs.
TEST(BlockHeads, OfSpecForgeAndPeagleAreSpeculatorsUnderOtherKeys) {
  const HeadFiles official = head_of("peagle");
  HeadFiles files = official;
  files.config = official.config.at("transformer_layer_config");
  files.config["architectures"] = {"PEagleDraftModel"};
  files.config["norm_before_residual"] = true;
  files.config["mask_token_id"] = 0;
  files.config["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", {0, 1, 3}}};
  const std::string drafter = "peagle:weights=f32,nodes=9,places=5";
  expect_equal_trees(rounds_of(drafter, files), rounds_of(drafter, official));
}

/// Rows that see no later ones guess the same whatever comes behind them.
TEST(BlockHeads, OfCausalBlocksGuessAPlaceWithoutThoseBehindIt) {
  for (const char* key : {"is_causal", "causal", "causal_head", ""}) {
    HeadFiles files = head_of("dflash");
    const std::string name = key;
    if (name == "is_causal") files.config[name] = true;
    if (!name.empty() && name != "is_causal") files.config["dflash_config"][name] = true;
    const auto all = rounds_of("dflash:weights=f32,topk=1", files);
    const auto fewer = rounds_of("dflash:weights=f32,topk=1,places=2", files);
    ASSERT_EQ(fewer[0].tree.draft_nodes(), 2);
    const bool same = all[0].tree[1].log_p == fewer[0].tree[1].log_p;
    EXPECT_EQ(same, !name.empty()) << name;
  }
}

/// The same head with as many columns more, all zeros. Half of the squares' mean is made up for by
/// the norms.
HeadFiles widened(HeadFiles files) {
  constexpr int kWide = 2 * 64;
  const auto tensors = files.tensors;
  for (const auto& [name, tensor] : tensors) {
    const bool of_head = name.find("q_norm") != name.npos || name.find("k_norm") != name.npos;
    if (of_head) continue;
    auto values = files.values(name);
    std::vector<std::int64_t> shape = tensor.shape;
    const bool by_rows = shape.size() == 1 || name == "fc.weight" ||
                         name.find("o_proj") != name.npos || name.find("down_proj") != name.npos;
    if (shape.size() == 1) {
      for (float& value : values) value *= std::sqrt(0.5F);
    }
    shape[by_rows ? 0 : 1] = kWide;
    if (by_rows) {
      values.resize(values.size() * 2);
    } else {
      for (auto row = shape[0]; row > 0; --row) values.insert(values.begin() + row * 64, 64, 0.0F);
    }
    files.add(name, shape, values);
  }
  files.config["rms_norm_eps"] = files.config["rms_norm_eps"].get<double>() / 2;
  return files;
}

TEST(BlockHeads, OfAnotherWidthHaveTablesOfTheirOwn) {
  HeadFiles files = head_of("dflash");
  const auto expected = rounds_of("dflash:weights=f32,nodes=9", files);
  files.add("embed_tokens.weight", {512, 64}, target_embedding());
  files.add("lm_head.weight", {512, 64}, target_embedding());
  files = widened(files);
  files.config["target_hidden_size"] = 64;
  const auto found = rounds_of("dflash:weights=f32,nodes=9", files);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].tree.tokens(), expected[i].tree.tokens());
    for (NodeId node = 1; node < expected[i].tree.size(); ++node) {
      EXPECT_NEAR(found[i].tree[node].log_p, expected[i].tree[node].log_p, 1e-3);
    }
  }
  files.config["target_hidden_size"] = 96;
  EXPECT_NE(refusal_of("dflash", files).find("\"target_hidden_size\": expected 64, found 96"),
            std::string::npos);
  EXPECT_NE(refusal_of("dflash", widened(head_of("dflash")))
                .find("\"hidden_size\": expected 64, or an own \"embed_tokens.weight\", found 128"),
            std::string::npos);
}

/// A head as llama.cpp's converter names its tensors and keys: layers are counted by their inputs.
struct GgufHead {
  GgufHead() {
    const std::pair<const char*, const char*> names[] = {
        {"hidden_norm", "enc.output_norm"},  {"input_layernorm", "attn_norm"},
        {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
        {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
        {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
        {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
        {"mlp.down_proj", "ffn_down"},       {"post_attention_layernorm", "ffn_norm"}};
    for (const auto& [name, tensor] : official.tensors) {
      std::string theirs = name == "norm.weight" ? "output_norm.weight" : name;
      for (const auto& [from, to] : names) {
        const std::size_t at = theirs.find(std::string(from) + ".weight");
        if (at != std::string::npos) theirs.replace(at, std::string(from).size(), to);
      }
      if (theirs.starts_with("layers.")) theirs.replace(0, 6, "blk");
      add(theirs, tensor.shape, tensor.bytes);
    }
  }
  template <typename Bytes>
  void add(const std::string& name, const std::vector<std::int64_t>& shape, const Bytes& bytes) {
    tensors.push_back({name, StorageType::f32, shape, std::as_bytes(std::span(bytes))});
  }
  void set(const std::string& key, const Json& value) {
    std::erase_if(keys, [&](const auto& pair) { return pair.first == key; });
    if (!value.is_null()) keys.emplace_back(key, value);
  }
  std::filesystem::path write(const test::TemporaryFolder& folder) const {
    const auto file = folder.path() / "head.gguf";
    write_gguf(file, keys, tensors);
    return file;
  }

  HeadFiles official = head_of("dflash");
  std::vector<float> spare = zeros(64 * 64);
  std::vector<TensorToWrite> tensors;
  GgufMetadata keys = {
      {"general.architecture", "dflash"},  {"dflash.block_size", 8U},
      {"dflash.block_count", 2U},          {"dflash.attention.head_count", 8U},
      {"dflash.attention.key_length", 8U}, {"dflash.attention.layer_norm_rms_epsilon", 1e-5F},
      {"dflash.rope.freq_base", 10000.0F}, {"dflash.target_layers", Json::array({1U, 2U, 4U})},
      {"tokenizer.ggml.mask_token_id", 0U}};
};

std::vector<EagleRound> rounds_of(const std::string& drafter, const GgufHead& head) {
  const test::TemporaryFolder folder;
  const auto made = eagle_target().make_drafter(drafter, head.write(folder).string());
  return run_eagle(eagle_target(), *made, kPrompt, 12);
}

TEST(BlockHeads, OfGgufFilesAreTheOfficialOnesUnderOtherNames) {
  const std::string drafter = "dflash:weights=f32,nodes=9";
  expect_equal_trees(rounds_of(drafter, GgufHead()), rounds_of(drafter, head_of("dflash")));
}

TEST(BlockHeads, OfGgufFilesTurnByTheKeysThatModelsHave) {
  const std::string drafter = "dflash:weights=f32,nodes=9";
  GgufHead yarn, partial;
  yarn.set("dflash.rope.scaling.type", "yarn");
  yarn.set("dflash.rope.scaling.factor", 4.0F);
  yarn.set("dflash.rope.scaling.original_context_length", 64U);
  partial.set("dflash.rope.dimension_count", 4U);
  HeadFiles official = head_of("dflash");
  official.config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
  const auto unscaled = rounds_of(drafter, GgufHead());
  auto expected = rounds_of(drafter, official);
  expect_equal_trees(rounds_of(drafter, yarn), expected);
  EXPECT_NE(expected.back().tree.log_ps(), unscaled.back().tree.log_ps());
  official.config["rope_scaling"] = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
  expected = rounds_of(drafter, official);
  expect_equal_trees(rounds_of(drafter, partial), expected);
  EXPECT_NE(expected.back().tree.log_ps(), unscaled.back().tree.log_ps());
}

TEST(BlockHeads, OfGgufFilesThatPredictFromTheAnchorGuessOnePlaceMore) {
  GgufHead head;
  head.set("dflash.sample_from_anchor", true);
  for (const EagleRound& round : rounds_of("dflash:topk=1", head)) {
    EXPECT_EQ(round.tree.draft_nodes(), 8);
  }
}

struct BadGguf {
  const char* expected;
  std::function<void(GgufHead&)> spoil;
};
void PrintTo(const BadGguf& bad, std::ostream* out) { *out << bad.expected; }

const BadGguf kBadGguf[] = {
    {"\"dflash.block_count\": expected an integer in 1..1024, found -1",
     [](GgufHead& head) { head.set("dflash.block_count", -1); }},
    {"expected the 2 layers that have a \"self_attn.q_proj.weight\", found 3",
     [](GgufHead& head) { head.set("dflash.block_count", 3U); }},
    {"\"dflash.block_size\": expected an integer in 2..64, found 4000000000",
     [](GgufHead& head) { head.set("dflash.block_size", 4000000000U); }},
    {"\"dflash.block_size\": expected an integer",
     [](GgufHead& head) { head.set("dflash.block_size", nullptr); }},
    {"\"dflash.attention.head_count\": expected an integer in 1..4096, found \"many\"",
     [](GgufHead& head) { head.set("dflash.attention.head_count", "many"); }},
    {"\"dflash.target_layers\": expected a list of target layers",
     [](GgufHead& head) { head.set("dflash.target_layers", nullptr); }},
    {"tap layer: expected one that enters a layer below 5, found 5",
     [](GgufHead& head) {
       head.set("dflash.target_layers", Json::array({1U, 2U, 5U}));
     }},
    {"\"fc.weight\": expected 128 columns, those of 2 target layers, found 192",
     [](GgufHead& head) {
       head.set("dflash.target_layers", Json::array({1U, 2U}));
     }},
    {"\"tokenizer.ggml.mask_token_id\": expected a token",
     [](GgufHead& head) { head.set("tokenizer.ggml.mask_token_id", nullptr); }},
    {"\"mask_token_id\": expected a token below 512, found 512",
     [](GgufHead& head) { head.set("dflash.mask_token_id", 512U); }},
    {"\"dflash.hyper_connection.count\": expected none",
     [](GgufHead& head) { head.set("dflash.hyper_connection.count", 4U); }},
    {"\"dflash.rope.scaling.type\": expected none, linear, yarn or longrope",
     [](GgufHead& head) { head.set("dflash.rope.scaling.type", "dynamic"); }},
    {"found \"selector_predecessor\" besides",
     [](GgufHead& head) {
       head.add("selector_predecessor", {64, 64}, head.spare);
     }},
    {"found \"blk.0.attn_q.scale\" besides",  // a factor of the matrix
     [](GgufHead& head) {
       head.add("blk.0.attn_q.scale", {64, 64}, head.spare);
     }},
    {"found \"blk.0.attn_sinks\" besides",
     [](GgufHead& head) {
       head.add("blk.0.attn_sinks", {64, 64}, head.spare);
     }},
    {"\"blk.1.attn_k.weight\": expected [32, 64], found [64, 64]",
     [](GgufHead& head) {
       std::erase_if(head.tensors, [](const auto& t) { return t.name == "blk.1.attn_k.weight"; });
       head.add("blk.1.attn_k.weight", {64, 64}, head.spare);
     }},
    {"\"layers.1.mlp.down_proj.weight\"",
     [](GgufHead& head) {
       std::erase_if(head.tensors, [](const auto& t) { return t.name == "blk.1.ffn_down.weight"; });
     }},
};

class BadGgufHeads : public testing::TestWithParam<BadGguf> {};

TEST_P(BadGgufHeads, AreRefusedByTheFieldThatDisagrees) {
  GgufHead head;
  GetParam().spoil(head);
  std::string message = "accepted";
  try {
    rounds_of("dflash", head);
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
}
INSTANTIATE_TEST_SUITE_P(All, BadGgufHeads, testing::ValuesIn(kBadGguf), message_name);

TEST(BlockHeads, AWindowThatHoldsTheTextChangesNothingAndAShorterOneDoes) {
  const HeadFiles full = head_of("dflash");
  const auto windowed = [&](int window) {
    HeadFiles files = full;
    files.config["layer_types"] = {"sliding_attention", "sliding_attention"};
    files.config["sliding_window"] = window;
    files.config["dflash_config"]["causal"] = false;
    return rounds_of("dflash:weights=f32,topk=1", files);
  };
  const auto expected = rounds_of("dflash:weights=f32,topk=1", full);
  const auto same = windowed(200), shorter = windowed(3);
  bool differs = false;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(same[i].tree.tokens(), expected[i].tree.tokens());
    for (std::size_t node = 1; node < expected[i].tree.nodes.size(); ++node) {
      EXPECT_NEAR(same[i].tree.nodes[node].log_p, expected[i].tree.nodes[node].log_p, 1e-4);
    }
    differs |= shorter[i].tree.tokens() != expected[i].tree.tokens();
  }
  EXPECT_TRUE(differs);
}

TEST(BlockHeads, FewerPlacesMakeShorterBlocks) {
  for (const EagleRound& round : rounds_of("dflash:topk=1,places=3", head_of("dflash"))) {
    EXPECT_EQ(round.tree.draft_nodes(), 3);
  }
  for (const EagleRound& round : rounds_of("peagle:topk=1,places=2", head_of("peagle"))) {
    EXPECT_EQ(round.tree.draft_nodes(), 2);
  }
}

}  // namespace
}  // namespace talon::blocks_heads_test
