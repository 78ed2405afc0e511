#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "draft/gemma4_assistant/assistant_network.h"
#include "draft/registry.h"
#include "eagle_head_files.h"
#include "maker_data.h"
#include "model/target.h"

namespace talon::eagle_gemma4_assistant_test {
namespace {

constexpr int kLevels = 3;
constexpr double kTolerance = 5e-4;  // of logits: after three passes, which feed each other

/// What transformers' classes draft behind places of a text (record_assistants.py).
struct Chains {
  MakerRecording files;
  std::vector<TokenId> ids, roots;  // roots: places in ids
  std::vector<TokenId> tokens;      // [roots, kLevels]
  std::vector<float> logits;        // [roots, kLevels, vocabulary]; -infinity: of no cluster read
};

template <typename T>
std::vector<T> numbers(const Checkpoint& file, const std::string& name) {
  const StoredTensor& tensor = file.require(name);
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

Chains unpack_chains(const std::string& name) {
  Chains chains{unpack_maker(name), {}, {}, {}, {}};
  const Checkpoint golden =
      read_safetensors(chains.files.folder.parent_path() / "golden.safetensors");
  chains.ids = numbers<TokenId>(golden, "chain.ids");
  chains.roots = numbers<TokenId>(golden, "chain.roots");
  chains.tokens = numbers<TokenId>(golden, "chain.tokens");
  chains.logits = numbers<float>(golden, "chain.logits");
  return chains;
}

/// A target with its cache, in float32.
struct TargetRun {
  static constexpr std::size_t kChunk = 50;

  explicit TargetRun(const std::string& family)
      : file(open_checkpoint(unpack_maker(family).folder)),
        model(load_model(file, *backend)),
        cache(*backend, kv_shape(model.config, 24, KvType::f32)),
        target(model, cache, static_cast<int>(kChunk), {FeatureTap{FeatureTap::kFinalNorm}}) {}

  std::unique_ptr<Backend> backend = make_reference_backend(2);
  Checkpoint file;
  Model model;
  KvCache cache;
  Target target;
};

/// Reads `tokens` into the cache; [1, hidden], the feature of the last.
KvSequence read_text(TargetRun& run, std::span<const TokenId> tokens, Buffer& feature) {
  feature = run.backend->allocate(1, run.model.config.hidden);
  KvSequence sequence = run.cache.start({}, false);
  while (!tokens.empty()) {
    const auto rows = tokens.first(std::min(TargetRun::kChunk, tokens.size()));
    EXPECT_TRUE(sequence.reserve(static_cast<int>(rows.size())));
    SequenceRows batch{&sequence, rows, {}, SequenceRows::Logits::none};
    batch.kept = true;
    const ForwardResult result = run.target.forward({&batch, 1});
    run.backend->copy(result.features.row_range(static_cast<int>(rows.size()) - 1, 1),
                      feature.view());
    std::vector<NodeId> path(rows.size());
    std::iota(path.begin(), path.end(), 0);
    sequence.keep(path, rows);
    tokens = tokens.subspan(rows.size());
  }
  return sequence;
}

/// A recorded assistant and its target.
struct Pair {
  const char *assistant, *target;
};
void PrintTo(const Pair& pair, std::ostream* out) { *out << pair.assistant; }
constexpr Pair kPairs[] = {{"gemma4_assistant", "gemma4"}, {"gemma4_e_assistant", "gemma4_e"}};

class Gemma4Assistant : public testing::TestWithParam<Pair> {
 protected:
  std::span<const float> recorded(std::size_t root, int level) const {
    const auto width = static_cast<std::size_t>(run_.model.config.vocabulary);
    return std::span(chains_.logits)
        .subspan((root * kLevels + static_cast<std::size_t>(level)) * width, width);
  }
  /// By token.
  static std::vector<float> logits_by_token(Gemma4AssistantNetwork& network) {
    const std::vector<float> rows = network.logits(1);
    if (network.target_token().empty()) return rows;
    std::vector<float> logits(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i)
      logits[static_cast<std::size_t>(network.target_token()[i])] = rows[i];
    return logits;
  }
  void expect_recorded_logits(const std::filesystem::path& path, bool reads_clusters) {
    const Gemma4AssistantWeights weights =
        load_gemma4_assistant(open_checkpoint(path), run_.model, WeightLayout::f32);
    Gemma4AssistantNetwork network(weights, {}, 4, run_.model.config.context);
    for (std::size_t i = 0; i < chains_.roots.size(); ++i) {
      const auto root = static_cast<std::size_t>(chains_.roots[i]);
      Buffer feature;
      const KvSequence text = read_text(run_, std::span(chains_.ids).first(root), feature);
      const KvSequence* const seen = &text;
      run_.backend->copy(feature.view(), network.features(1));
      TokenId token = chains_.ids[root];
      for (int level = 0; level < kLevels; ++level) {
        network.forward({&token, 1}, {&seen, 1});
        const std::vector<float> found = logits_by_token(network);
        const auto expected = recorded(i, level);
        for (std::size_t t = 0; t < found.size(); ++t) {
          if (std::isfinite(expected[t])) {
            ASSERT_NEAR(found[t], expected[t], kTolerance)
                << "root " << root << " level " << level << " token " << t;
          } else {
            ASSERT_EQ(std::isfinite(found[t]), !reads_clusters);
          }
        }
        token = chains_.tokens[i * kLevels + static_cast<std::size_t>(level)];
        run_.backend->copy(network.states(1), network.features(1));
      }
    }
  }

  Chains chains_ = unpack_chains(GetParam().assistant);
  TargetRun run_{GetParam().target};
};

TEST_P(Gemma4Assistant, GivesTheLogitsOfTheClassesFromItsFolder) {
  expect_recorded_logits(chains_.files.folder, true);
}

/// Which holds no clusters: all tokens have logits.
TEST_P(Gemma4Assistant, GivesTheLogitsOfTheClassesFromGguf) {
  expect_recorded_logits(chains_.files.gguf, false);
}

/// All texts at once, in one cache.
TEST_P(Gemma4Assistant, DraftsTheChainsOfTheClasses) {
  const std::string text = fmt::format("mtp:head={},weights=f32,topk=1,levels={}",
                                       chains_.files.folder.string(), kLevels);
  const auto drafter = make_drafter(text, {.target = &run_.model});
  EXPECT_TRUE(drafter->traits().reads_cache);
  std::vector<KvSequence> texts;
  std::vector<std::unique_ptr<DraftState>> states;
  std::vector<DraftTree> trees;
  for (const TokenId place : chains_.roots) {
    const auto root = static_cast<std::size_t>(place);
    Buffer feature;
    texts.push_back(read_text(run_, std::span(chains_.ids).first(root), feature));
    states.push_back(drafter->start());
    drafter->observe(*states.back(), {.tokens = std::span(chains_.ids).subspan(root, 1),
                                      .first_position = place,
                                      .features = feature.view()});
    trees.emplace_back(chains_.ids[root]);
  }
  const auto jobs = [&](bool with_texts) {
    std::vector<DraftJob> all;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      DraftJob& job =
          all.emplace_back(DraftJob{states[i].get(), nullptr, {1000, 1000, 1000}, &trees[i]});
      job.position = chains_.roots[i];
      if (with_texts) job.text = &texts[i];
    }
    return all;
  };
  std::vector<DraftJob> without = jobs(false);
  drafter->propose(without);
  for (const DraftTree& tree : trees) EXPECT_EQ(tree.draft_nodes(), 0);
  std::vector<DraftJob> with = jobs(true);
  drafter->propose(with);
  for (std::size_t i = 0; i < trees.size(); ++i) {
    ASSERT_EQ(trees[i].draft_nodes(), kLevels);
    double log_p = 0;
    for (int level = 0; level < kLevels; ++level) {
      const DraftTree::Node& node = trees[i][level + 1];
      EXPECT_EQ(node.parent, level);
      EXPECT_EQ(node.token, chains_.tokens[i * kLevels + static_cast<std::size_t>(level)]);
      const auto logits = recorded(i, level);
      double all = 0;
      for (const float logit : logits) all += std::exp(double{logit});
      log_p += double{std::ranges::max(logits)} - std::log(all);
      EXPECT_NEAR(node.log_p, log_p, 2e-3);
    }
  }
}

/// Nodes of one level see the text alone, so company changes nothing.
TEST_P(Gemma4Assistant, GrowsTheSameChainWithinATree) {
  const std::string text = fmt::format("mtp:head={},weights=f32,topk=3,levels={},nodes=30",
                                       chains_.files.folder.string(), kLevels);
  const auto drafter = make_drafter(text, {.target = &run_.model});
  const auto root = static_cast<std::size_t>(chains_.roots.back());
  Buffer feature;
  const KvSequence seen = read_text(run_, std::span(chains_.ids).first(root), feature);
  const auto state = drafter->start();
  drafter->observe(*state, {.tokens = std::span(chains_.ids).subspan(root, 1),
                            .first_position = chains_.roots.back(),
                            .features = feature.view()});
  DraftTree tree(chains_.ids[root]);
  DraftJob job{state.get(), nullptr, {1000, 1000, 1000}, &tree};
  job.position = chains_.roots.back();
  job.text = &seen;
  drafter->propose({&job, 1});
  EXPECT_GT(tree.draft_nodes(), 2 * kLevels);
  NodeId at = 0;
  for (int level = 0; level < kLevels; ++level) {
    const std::size_t place =
        (chains_.roots.size() - 1) * kLevels + static_cast<std::size_t>(level);
    NodeId next = -1;
    for (NodeId node = 1; node < tree.size(); ++node)
      if (tree[node].parent == at && tree[node].token == chains_.tokens[place]) next = node;
    ASSERT_NE(next, -1) << "level " << level;
    at = next;
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, Gemma4Assistant, testing::ValuesIn(kPairs),
                         [](const auto& tested) { return std::string(tested.param.assistant); });

HeadFiles files_of(const std::filesystem::path& folder) {
  const Checkpoint checkpoint = open_checkpoint(folder);
  HeadFiles files;
  files.config = checkpoint.metadata;
  for (const StoredTensor& tensor : checkpoint.tensors) {
    const char* type = tensor.type == StorageType::i64 ? "I64" : "BF16";
    files.tensors[tensor.name] = {
        type, tensor.shape,
        std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size())};
  }
  return files;
}

struct Refusal {
  const char* message;  // contains it
  std::function<void(HeadFiles&)> spoil;
};

constexpr const char* kOrdering = "masked_embedding.token_ordering";

const Refusal kRefusals[] = {
    {"\"backbone_hidden_size\": expected 64, found 65",
     [](HeadFiles& f) { f.config["backbone_hidden_size"] = 65; }},
    {"\"vocab_size\": expected 272, found 271",
     [](HeadFiles& f) {
       f.config["use_ordered_embeddings"] = false;
       f.config["text_config"]["vocab_size"] = 271;
     }},
    {"\"head_dim\": expected 16, found 8",
     [](HeadFiles& f) { f.config["text_config"]["head_dim"] = 8; }},
    {"\"global_head_dim\": expected 32, found 16",
     [](HeadFiles& f) { f.config["text_config"]["global_head_dim"] = 16; }},
    {"\"num_key_value_heads\": expected 1, found 2",
     [](HeadFiles& f) { f.config["text_config"]["num_key_value_heads"] = 2; }},
    {"\"sliding_window\": expected 24, found 23",
     [](HeadFiles& f) { f.config["text_config"]["sliding_window"] = 23; }},
    {"\"layer_types\"",
     [](HeadFiles& f) { f.config["text_config"]["layer_types"] = {"full_attention"}; }},
    {"\"rope_theta\" of full_attention",
     [](HeadFiles& f) {
       f.config["text_config"]["rope_parameters"]["full_attention"]["rope_theta"] = 1e6;
     }},
    {"\"num_kv_shared_layers\": expected 3, found 1",
     [](HeadFiles& f) { f.config["text_config"]["num_kv_shared_layers"] = 1; }},
    {"\"hidden_size_per_layer_input\": expected 0, found 16",
     [](HeadFiles& f) { f.config["text_config"]["hidden_size_per_layer_input"] = 16; }},
    {"\"use_double_wide_mlp\": expected false, found true",
     [](HeadFiles& f) { f.config["text_config"]["use_double_wide_mlp"] = true; }},
    {"\"text_config\"", [](HeadFiles& f) { f.config.erase("text_config"); }},
    {"\"num_centroids\"", [](HeadFiles& f) { f.config["num_centroids"] = 33; }},
    {"\"centroid_intermediate_top_k\"",
     [](HeadFiles& f) { f.config["centroid_intermediate_top_k"] = 35; }},
    {"\"masked_embedding.centroids.weight\": expected [17, 16], found [34, 16]",
     [](HeadFiles& f) { f.config["num_centroids"] = 17; }},
    {"\"masked_embedding.token_ordering\": entry 1: expected a token id below 272 that comes once",
     [](HeadFiles& f) {
       std::string& bytes = f.tensors.at(kOrdering).bytes;
       bytes.replace(8, 8, bytes, 0, 8);
     }},
    {"\"masked_embedding.token_ordering\": entry 0: expected a token id below 272 that comes once",
     [](HeadFiles& f) { f.tensors.at(kOrdering).bytes[7] = '\x80'; }},
    {"\"masked_embedding.token_ordering\": expected integers, found bf16",
     [](HeadFiles& f) {
       f.tensors.at(kOrdering) = {"BF16", {272}, std::string(544, '\0')};
     }},
    {"pre_projection.weight", [](HeadFiles& f) { f.tensors.erase("pre_projection.weight"); }},
    {"\"post_projection.weight\": expected [64, 16], found [16, 64]",
     [](HeadFiles& f) {
       f.tensors.at("post_projection.weight").shape = {16, 64};
     }},
    {"\"model.layers.3.mlp.up_proj.weight\"",
     [](HeadFiles& f) {
       f.add("model.layers.3.mlp.up_proj.weight", {1, 1}, {1});
     }},
    {"\"model.norm.weight\": expected finite values",
     [](HeadFiles& f) {
       f.add("model.norm.weight", {16},
             std::vector<float>(16, std::numeric_limits<float>::quiet_NaN()));
     }},
};

std::string loading(const HeadFiles& files, const Model& target) {
  const test::TemporaryFolder folder;
  files.write(folder);
  return test::message_of(
      [&] { load_gemma4_assistant(open_checkpoint(folder.path()), target, WeightLayout::f32); });
}

TEST(Gemma4AssistantRefusals, NameTheField) {
  const TargetRun run("gemma4_e");
  const HeadFiles whole = files_of(unpack_maker("gemma4_e_assistant").folder);
  EXPECT_EQ(loading(whole, run.model), "no error");
  for (const Refusal& refusal : kRefusals) {
    HeadFiles files = whole;
    refusal.spoil(files);
    const std::string message = loading(files, run.model);
    EXPECT_NE(message.find(refusal.message), std::string::npos)
        << message << "\nlacks " << refusal.message;
  }
}

/// Throws nothing but an Error, whatever stands in its configuration.
TEST(Gemma4AssistantRefusals, EveryValueMayBeHostile) {
  const TargetRun run("gemma4_e");
  const HeadFiles whole = files_of(unpack_maker("gemma4_e_assistant").folder);
  const Json bad_values[] = {nullptr,       -1, 0, 3, 1000000000, 1e300, true, "x", Json::array(),
                             Json::object()};
  int refused = 0;
  for (const bool in_text : {false, true}) {
    const Json& keys = in_text ? whole.config["text_config"] : whole.config;
    for (const auto& [key, value] : keys.items()) {
      for (const Json& bad : bad_values) {
        HeadFiles files = whole;
        (in_text ? files.config["text_config"] : files.config)[key] = bad;
        refused += loading(files, run.model) == "no error" ? 0 : 1;
      }
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(Gemma4AssistantRefusals, NameAKeyOfGguf) {
  const ModelConfig target = read_model_config(open_checkpoint(unpack_maker("gemma4").folder));
  const std::filesystem::path path = unpack_maker("gemma4_assistant").gguf;
  const auto checking = [&](const char* key, const Json& value) {
    Checkpoint file = open_checkpoint(path);
    file.metadata[std::string("gemma4-assistant.") + key] = value;
    return test::message_of([&] { check_gemma4_assistant_fits(file, target); });
  };
  EXPECT_EQ(checking("block_count", 3), "no error");
  EXPECT_NE(checking("embedding_length_out", 65).find("backbone_hidden_size"), std::string::npos);
  EXPECT_NE(checking("embedding_length_out", 0).find("embedding_length_out"), std::string::npos);
  EXPECT_NE(checking("block_count", 0).find("block_count"), std::string::npos);
  EXPECT_NE(checking("attention.sliding_window", 8).find("sliding_window"), std::string::npos);
}

TEST(Gemma4AssistantRefusals, NameTheTarget) {
  const Checkpoint assistant = open_checkpoint(unpack_maker("gemma4_e_assistant").folder);
  const std::string message = test::message_of(
      [&] { check_gemma4_assistant_fits(assistant, read_model_config(golden_target())); });
  EXPECT_NE(message.find("expected a Gemma 4, found \"llama\""), std::string::npos) << message;
}

TEST(Gemma4AssistantRefusals, NameTheDrafter) {
  const TargetRun run("gemma4_e");
  const std::string text = "eagle2:head=" + unpack_maker("gemma4_e_assistant").folder.string();
  const std::string message = test::message_of([&] { make_drafter(text, {.target = &run.model}); });
  EXPECT_NE(message.find("found one for mtp"), std::string::npos) << message;
}

}  // namespace
}  // namespace talon::eagle_gemma4_assistant_test
