#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "draft/block/write_gguf_block.h"
#include "eagle_head_files.h"
#include "eagle_run.h"

// Block drafters as GGUF files of Talon's own making: against the folders they are made of.
namespace talon::blocks_gguf_test {
namespace {

namespace fs = std::filesystem;

HeadFiles head_of(const std::string& kind) {
  return HeadFiles::read("../blocks/" + kind + "/head");
}

std::vector<EagleRound> rounds_of(const std::string& drafter, const fs::path& head) {
  const std::vector<TokenId> prompt = {1, 403, 407, 261, 378, 432, 383, 286, 261, 376};
  const auto made = eagle_target().make_drafter(drafter, head.string());
  return run_eagle(eagle_target(), *made, prompt, 12);
}

/// Folders of a head, and of what is made of it.
struct Written {
  explicit Written(const HeadFiles& files) { files.write(source); }
  fs::path write(HeadStorage storage = HeadStorage::f32, HeadOutput output = HeadOutput::in_file,
                 const std::string& name = "head.gguf") const {
    const fs::path file = folder.path() / name;
    write_gguf_block(open_checkpoint(source.path()), golden_target(), storage, file, output);
    return file;
  }
  std::string refusal(HeadOutput output = HeadOutput::in_file) const {
    const std::string message = test::message_of([&] { write(HeadStorage::f32, output); });
    EXPECT_TRUE(fs::is_empty(folder.path()));
    return message;
  }
  test::TemporaryFolder source, folder;
};

std::vector<float> zeros(std::size_t count) { return std::vector<float>(count); }

/// Output rows of every third token.
void reduce_vocabulary(HeadFiles& files) {
  constexpr std::int64_t kRows = 160, kWidth = 64;
  const auto table = target_embedding();
  std::vector<float> rows;
  std::string differences(kRows * sizeof(std::int64_t), '\0');
  for (std::int64_t i = 0; i < kRows; ++i) {
    const auto row = table.begin() + 3 * i * kWidth;
    rows.insert(rows.end(), row, row + kWidth);
    const std::int64_t difference = 2 * i;
    std::memcpy(&differences[static_cast<std::size_t>(i) * sizeof(difference)], &difference,
                sizeof(difference));
  }
  files.add("lm_head.weight", {kRows, kWidth}, rows);
  files.tensors["d2t"] = {"I64", {kRows}, differences};
}

/// speculators' layout, in which layers that slide are causal.
void make_speculators(HeadFiles& files, const std::vector<std::string>& layer_types) {
  Json layer = files.config;
  layer.erase("dflash_config");
  layer.erase("architectures");
  layer["layer_types"] = layer_types;
  layer["sliding_window"] = 6;
  files.config = {{"speculators_model_type", "dflash"},
                  {"transformer_layer_config", layer},
                  {"block_size", 8},
                  {"mask_token_id", 0},
                  {"aux_hidden_state_layer_ids", {1, 2, 4}}};
}

struct Variant {
  const char* name;
  const char* kind;
  std::function<void(HeadFiles&)> change;
};
void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }
constexpr auto variant_name = [](const auto& test) { return std::string(test.param.name); };

const Variant kVariants[] = {
    {"dflash", "dflash", [](HeadFiles&) {}},
    {"dspark", "dspark", [](HeadFiles&) {}},
    {"dspark_without_confidence", "dspark",
     [](HeadFiles& files) {
       files.tensors.erase("confidence_head.proj.weight");
       files.tensors.erase("confidence_head.proj.bias");
     }},
    {"dspark_of_masks_alone", "dspark",
     [](HeadFiles& files) { files.config["sample_from_anchor"] = false; }},
    {"reduced_vocabulary", "dflash", reduce_vocabulary},
    {"guesses_of_the_root", "dflash",
     [](HeadFiles& files) { files.config["sample_from_anchor"] = true; }},
    {"causal", "dflash", [](HeadFiles& files) { files.config["is_causal"] = true; }},
    {"sliding", "dflash",
     [](HeadFiles& files) {
       files.config["layer_types"] = {"sliding_attention", "full_attention"};
       files.config["sliding_window"] = 6;
     }},
    {"sliding_and_not_causal", "dflash",
     [](HeadFiles& files) {
       files.config["layer_types"] = {"sliding_attention", "full_attention"};
       files.config["sliding_window"] = 6;
       files.config["dflash_config"]["causal"] = false;
     }},
    {"sliding_of_speculators", "dflash",
     [](HeadFiles& files) {
       make_speculators(files, {"sliding_attention", "full_attention"});
     }},
    {"causal_and_sliding", "dflash",
     [](HeadFiles& files) {
       make_speculators(files, {"sliding_attention", "sliding_attention"});
     }},
    {"linear_scaling", "dflash",
     [](HeadFiles& files) {
       files.config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
     }},
    {"yarn", "dflash",
     [](HeadFiles& files) {
       files.config["rope_scaling"] = {{"rope_type", "yarn"},
                                       {"factor", 4.0},
                                       {"beta_fast", 16.0},
                                       {"attention_factor", 1.25},
                                       {"original_max_position_embeddings", 64}};
     }},
    {"partial_rotation", "dflash",
     [](HeadFiles& files) {
       files.config["rope_scaling"] = {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
     }},
};

class WrittenBlocks : public testing::TestWithParam<Variant> {};

TEST_P(WrittenBlocks, GiveTheDraftsOfTheHeadTheyAreMadeOf) {
  HeadFiles files = head_of(GetParam().kind);
  GetParam().change(files);
  const Written written(files);
  const std::string drafter = std::string(GetParam().kind) + ":weights=f32,nodes=9";
  expect_same_drafts(rounds_of(drafter, written.source.path()),
                     rounds_of(drafter, written.write()));
}

TEST_P(WrittenBlocks, MadeOfAGgufFileAreTheSame) {
  HeadFiles files = head_of(GetParam().kind);
  GetParam().change(files);
  const Written written(files);
  const fs::path first = written.write(), second = written.folder.path() / "second.gguf";
  const Checkpoint a = open_checkpoint(first);
  write_gguf_block(a, golden_target(), HeadStorage::f32, second);
  const Checkpoint b = open_checkpoint(second);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const StoredTensor& tensor : a.tensors) {
    const StoredTensor& other = b.require(tensor.name);
    EXPECT_EQ(tensor.type, other.type) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, other.bytes)) << tensor.name;
  }
  Json keys = a.metadata;
  keys["general.name"] = "head";  // of the file that it is made of
  EXPECT_TRUE(keys == b.metadata) << keys.dump() << "\n" << b.metadata.dump();
}
INSTANTIATE_TEST_SUITE_P(All, WrittenBlocks, testing::ValuesIn(kVariants), variant_name);

TEST(WrittenBlock, HasTheNamesAndKeysOfLlamaCpp) {
  HeadFiles files = head_of("dspark");
  files.config["talon"] = {{"target_fingerprint", "0123456789abcdef"}};
  const Written written(files);
  const Checkpoint file = open_checkpoint(written.write());
  const std::pair<const char*, Json> keys[] = {
      {"general.architecture", "dflash"},
      {"dflash.block_count", 2},
      {"dflash.context_length", 512},
      {"dflash.embedding_length", 64},
      {"dflash.feed_forward_length", 172},
      {"dflash.attention.head_count", 8},
      {"dflash.attention.head_count_kv", 4},
      {"dflash.attention.key_length", 8},
      {"dflash.attention.value_length", 8},
      {"dflash.rope.dimension_count", 8},
      {"dflash.rope.freq_base", 10000.0},
      {"dflash.block_size", 6},
      {"dflash.target_layers", Json::array({1, 2, 4})},  // whose inputs are taken
      {"dflash.sample_from_anchor", true},
      {"dflash.has_confidence_head", true},
      {"tokenizer.ggml.mask_token_id", 0}};
  for (const auto& [key, value] : keys) {
    ASSERT_TRUE(file.metadata.contains(key)) << key;
    EXPECT_TRUE(file.metadata[key] == value) << key << ": " << file.metadata[key].dump();
  }
  EXPECT_FALSE(file.metadata.contains("dflash.attention.causal"));
  EXPECT_FALSE(file.metadata.contains("dflash.attention.sliding_window"));
  EXPECT_NE(file.metadata.at("talon.origin").dump().find("0123456789abcdef"), std::string::npos);
  std::vector<std::string> names = {
      "token_embd.weight",  "fc.weight",        "enc.output_norm.weight",
      "output_norm.weight", "output.weight",    "markov_w1.weight",
      "markov_w2.weight",   "conf_proj.weight", "conf_proj.bias"};
  for (const char* part : {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "attn_q_norm",
                           "attn_k_norm", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"}) {
    for (const int layer : {0, 1}) names.push_back(fmt::format("blk.{}.{}.weight", layer, part));
  }
  EXPECT_EQ(file.tensors.size(), names.size());
  for (const std::string& name : names) EXPECT_NE(file.find(name), nullptr) << name;
}

TEST(WrittenBlock, IsStoredAsAskedForWhereRowsAreWholeBlocks) {
  const Written written(head_of("dspark"));
  const Checkpoint file = open_checkpoint(written.write(HeadStorage::q8_0));
  const auto type = [&](const char* name) { return file.require(name).type; };
  EXPECT_EQ(type("fc.weight"), StorageType::q8_0);
  EXPECT_EQ(type("blk.1.attn_q.weight"), StorageType::q8_0);
  EXPECT_EQ(type("blk.1.ffn_down.weight"), StorageType::f16) << "rows of 172";
  EXPECT_EQ(type("markov_w1.weight"), StorageType::f16) << "rows of 16";
  EXPECT_EQ(type("conf_proj.weight"), StorageType::f32);
  EXPECT_EQ(type("blk.0.attn_norm.weight"), StorageType::f32);
  EXPECT_FALSE(rounds_of("dspark:weights=f32", file.path).empty());
}

TEST(WrittenBlock, TakesTheTargetsTokenizerButItsMask) {
  Checkpoint target = golden_target();
  target.metadata = Json::object();
  target.metadata["general.name"] = "target";
  target.metadata["tokenizer.ggml.model"] = "llama";
  target.metadata["tokenizer.ggml.mask_token_id"] = 7;
  GgufMetadata keys;
  keys.emplace_back("tokenizer.ggml.mask_token_id", 3);
  append_tokenizer(target, keys);
  EXPECT_EQ(keys.size(), 1u) << "no GGUF file";
  target.format = CheckpointFormat::gguf;
  append_tokenizer(target, keys);
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].second, 3);
  EXPECT_EQ(keys[1].first, "tokenizer.ggml.model");
}

/// The target's tables beside the head's own.
TEST(WrittenBlock, LeavesTablesOutThatAreTheTargets) {
  const Written written(head_of("dspark"));
  const fs::path whole = written.write();
  const fs::path sharing = written.write(HeadStorage::f32, HeadOutput::of_target, "sharing.gguf");
  const std::size_t tables = std::size_t{2} * 512 * 64 * sizeof(float);
  EXPECT_LT(fs::file_size(sharing) + tables * 9 / 10, fs::file_size(whole));
  EXPECT_EQ(open_checkpoint(sharing).find("output.weight"), nullptr);
  EXPECT_EQ(open_checkpoint(sharing).find("token_embd.weight"), nullptr);
  const std::string drafter = "dspark:weights=f32,nodes=9";
  expect_same_drafts(rounds_of(drafter, whole), rounds_of(drafter, sharing));
}

TEST(WrittenBlock, WithoutTablesIsTheSameEitherWay) {
  const Written written(head_of("dflash"));
  const fs::path whole = written.write();
  const fs::path sharing = written.write(HeadStorage::f32, HeadOutput::of_target, "sharing.gguf");
  EXPECT_EQ(open_checkpoint(sharing).tensors.size(), open_checkpoint(whole).tensors.size());
}

TEST(WrittenBlock, KeepsTablesThatAreNotTheTargets) {
  for (const char* table : {"lm_head.weight", "embed_tokens.weight"}) {
    HeadFiles files = head_of("dspark");
    auto rows = files.values(table);
    for (std::size_t i = 0; i < 64; ++i) rows[17 * 64 + i] *= 1.1F;
    files.add(table, {512, 64}, rows);
    const std::string message = Written(files).refusal(HeadOutput::of_target);
    EXPECT_NE(message.find(fmt::format("\"{}\": expected the target's rows, found another for "
                                       "token 17",
                                       table)),
              std::string::npos)
        << message;
  }
  HeadFiles files = head_of("dflash");
  reduce_vocabulary(files);
  const std::string message = Written(files).refusal(HeadOutput::of_target);
  EXPECT_NE(message.find("expected the output rows of all tokens"), std::string::npos) << message;
  EXPECT_NE(message.find("found those of 160"), std::string::npos) << message;
}

/// A head of half the target's width, all zeros.
void narrow(HeadFiles& files) {
  constexpr std::int64_t kNarrow = 32;
  const auto tensors = files.tensors;
  for (const auto& [name, tensor] : tensors) {
    if (name.find("q_norm") != name.npos || name.find("k_norm") != name.npos) continue;
    std::vector<std::int64_t> shape = tensor.shape;
    const bool by_rows = shape.size() == 1 || name == "fc.weight" ||
                         name.find("o_proj") != name.npos || name.find("down_proj") != name.npos;
    shape[by_rows ? 0 : 1] = kNarrow;
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    files.add(name, shape, zeros(count));
  }
  for (const char* table : {"embed_tokens.weight", "lm_head.weight"})
    files.add(table, {512, kNarrow}, zeros(512 * kNarrow));
}

void add_to_layers(HeadFiles& files, const std::string& part, std::int64_t size) {
  for (const int layer : {0, 1}) {
    files.add(fmt::format("layers.{}.self_attn.{}", layer, part), {size},
              zeros(static_cast<std::size_t>(size)));
  }
}

/// What llama.cpp has no place for. Named by `expected`, a part of the message.
const Variant kUnwritten[] = {
    {"found a width of 32 beside the target's 64", "dflash", narrow},
    {"found no norms of q and k", "dflash",
     [](HeadFiles& files) {
       std::erase_if(files.tensors, [](const auto& tensor) {
         return tensor.first.ends_with("q_norm.weight") || tensor.first.ends_with("k_norm.weight");
       });
     }},
    {"found biases of q, k and v", "dflash",
     [](HeadFiles& files) {
       add_to_layers(files, "q_proj.bias", 64);
       add_to_layers(files, "k_proj.bias", 32);
       add_to_layers(files, "v_proj.bias", 32);
     }},
    {"found a bias of the attention's output", "dflash",
     [](HeadFiles& files) { add_to_layers(files, "o_proj.bias", 64); }},
    {"found another activation than silu", "dflash",
     [](HeadFiles& files) { files.config["hidden_act"] = "gelu_pytorch_tanh"; }},
    {"found a confidence that does not read the token before", "dspark",
     [](HeadFiles& files) {
       files.config["confidence_head_with_markov"] = false;
       files.add("confidence_head.proj.weight", {1, 64}, zeros(64));
     }},
    {"found a bias by the token before of the kind gated", "dspark",
     [](HeadFiles& files) {
       files.config["markov_head_type"] = "gated";
       files.add("markov_head.gate_proj.weight", {16, 80}, zeros(16 * 80));
       files.add("markov_head.gate_proj.bias", {16}, zeros(16));
     }},
    {"found a bias by the token before of the kind rnn", "dspark",
     [](HeadFiles& files) {
       files.config["markov_head_type"] = "rnn";
       files.add("markov_head.joint_proj.weight", {48, 96}, zeros(48 * 96));
       files.add("markov_head.joint_proj.bias", {48}, zeros(48));
     }},
    {"found factors of frequencies", "dflash",
     [](HeadFiles& files) {
       files.config["rope_scaling"] = {{"rope_type", "llama3"},
                                       {"factor", 8.0},
                                       {"low_freq_factor", 1.0},
                                       {"high_freq_factor", 4.0},
                                       {"original_max_position_embeddings", 256}};
     }},
    {"found a ramp of YaRN between whole pairs", "dflash",
     [](HeadFiles& files) {
       files.config["rope_scaling"] = {{"rope_type", "yarn"},
                                       {"factor", 4.0},
                                       {"truncate", false},
                                       {"original_max_position_embeddings", 64}};
     }},
    {"num_target_layers\": expected 5, found 6", "dflash",
     [](HeadFiles& files) { files.config["num_target_layers"] = 6; }},
};

TEST(WrittenBlock, IsRefusedByThePartThatTheArchitectureDoesNotHave) {
  for (const Variant& variant : kUnwritten) {
    HeadFiles files = head_of(variant.kind);
    variant.change(files);
    const std::string message = Written(files).refusal();
    EXPECT_NE(message.find(variant.name), std::string::npos) << message;
  }
}

TEST(WrittenBlock, ThatIsStoppedLeavesNothingBehind) {
  const Written written(head_of("dflash"));
  StopFlag stop;
  const auto write = [&] {
    return write_gguf_block(open_checkpoint(written.source.path()), golden_target(),
                            HeadStorage::f32, written.folder.path() / "head.gguf",
                            HeadOutput::in_file, &stop);
  };
  stop.request();
  EXPECT_FALSE(write());
  EXPECT_TRUE(fs::is_empty(written.folder.path()));
  stop.clear();
  EXPECT_TRUE(write());
}

}  // namespace
}  // namespace talon::blocks_gguf_test
