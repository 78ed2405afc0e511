#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "backend/index_list.h"
#include "draft/medusa/medusa_network.h"
#include "eagle_head_files.h"
#include "eagle_run.h"

namespace talon::medusa_heads_test {
namespace {

constexpr int kHidden = 64, kVocabulary = 512, kHeads = 3, kRows = 2, kCount = 6;

std::vector<float> random_values(std::size_t count, unsigned seed, float scale) {
  std::mt19937 engine(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = scale * (static_cast<float>(engine() % 2001) - 1000.0F) / 1000.0F;
  }
  return values;
}

/// Official files of heads that share the target's output matrix.
HeadFiles sharing_heads(int blocks = 1) {
  HeadFiles files;
  files.config = {{"medusa_num_heads", 2}, {"vocab_size", kVocabulary}};
  for (int head = 0; head < kHeads; ++head) {
    for (int block = 0; block < blocks; ++block) {
      const std::string name = fmt::format("{}.{}.linear.", head, block);
      const auto seed = static_cast<unsigned>(10 * head + block);
      files.add(name + "weight", {kHidden, kHidden}, random_values(kHidden * kHidden, seed, 0.2F));
      files.add(name + "bias", {kHidden}, random_values(kHidden, seed + 100, 0.5F));
    }
  }
  return files;
}

HeadFiles own_outputs() {
  HeadFiles files = sharing_heads();
  for (int head = 0; head < kHeads; ++head) {
    files.add(fmt::format("{}.1.weight", head), {kVocabulary, kHidden},
              random_values(kVocabulary * kHidden, static_cast<unsigned>(head + 40), 1));
  }
  return files;
}

/// One output matrix for all heads, with the rows of 128 tokens: 3, 7, 11, ...
HeadFiles reduced_vocabulary() {
  HeadFiles files = sharing_heads();
  files.add("lm_head.weight", {128, kHidden}, random_values(128 * kHidden, 50, 1));
  std::string differences;
  for (std::int64_t i = 0; i < 128; ++i) {
    const std::int64_t difference = 4 * i + 3 - i;
    differences.append(reinterpret_cast<const char*>(&difference), sizeof(difference));
  }
  files.tensors["d2t"] = {"I64", {128}, differences};
  return files;
}

HeadFiles without_bias() {
  HeadFiles files = sharing_heads();
  for (int head = 0; head < kHeads; ++head)
    files.tensors.erase(fmt::format("{}.0.linear.bias", head));
  return files;
}

MedusaWeights load(const HeadFiles& files) {
  const test::TemporaryFolder folder;
  files.write(folder);
  return load_medusa(open_checkpoint(folder.path()), eagle_target().model, WeightLayout::f32);
}

std::vector<float> download(const View& view) {
  std::vector<float> values(static_cast<std::size_t>(view.rows * view.cols));
  eagle_target().backend->download(view, values);
  return values;
}

/// Log-probabilities of one head after one feature: the formulas, in double.
std::vector<double> plain_head(const HeadFiles& files, int head, std::span<const float> feature,
                               const std::vector<float>& output) {
  std::vector<double> x(feature.begin(), feature.end());
  for (int block = 0; files.tensors.contains(fmt::format("{}.{}.linear.weight", head, block));
       ++block) {
    const std::string name = fmt::format("{}.{}.linear.", head, block);
    const auto weight = files.values(name + "weight");
    const auto bias = files.tensors.contains(name + "bias") ? files.values(name + "bias")
                                                            : std::vector<float>(kHidden);
    std::vector<double> y = x;
    for (std::size_t row = 0; row < kHidden; ++row) {
      double sum = bias[row];
      for (std::size_t i = 0; i < kHidden; ++i) sum += x[i] * weight[row * kHidden + i];
      y[row] += sum / (1 + std::exp(-sum));
    }
    x = y;
  }
  std::vector<double> logits(output.size() / kHidden);
  double total = 0;
  for (std::size_t row = 0; row < logits.size(); ++row) {
    for (std::size_t i = 0; i < kHidden; ++i) logits[row] += x[i] * output[row * kHidden + i];
    total += std::exp(logits[row]);
  }
  for (double& logit : logits) logit -= std::log(total);
  return logits;
}

std::vector<float> target_output() {
  std::vector<TokenId> all(kVocabulary);
  std::iota(all.begin(), all.end(), 0);
  const auto buffer = eagle_target().backend->allocate(kVocabulary, kHidden);
  IndexList ids(*eagle_target().backend);
  eagle_target().backend->embed(*eagle_target().model.embedding, ids.put(all),
                                buffer.view());  // tied
  return download(buffer.view());
}

struct Variant {
  const char* name;
  HeadFiles files;
  std::function<std::vector<float>(const HeadFiles&, int head)> output;
};
void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

class MedusaHeads : public testing::TestWithParam<Variant> {};

TEST_P(MedusaHeads, GuessWhatTheFormulasGive) {
  const Variant& variant = GetParam();
  const MedusaWeights weights = load(variant.files);
  MedusaNetwork network(weights, {});
  const auto features = eagle_target().backend->allocate(kRows, kHidden);
  const auto values = random_values(kRows * kHidden, 3, 1);
  eagle_target().backend->upload(values, features.view());
  const auto guesses = network.guess(features.view(), kCount, {});
  ASSERT_EQ(guesses.size(), static_cast<std::size_t>(kHeads));
  for (int head = 0; head < kHeads; ++head) {
    const RowChildren& found = guesses[static_cast<std::size_t>(head)];
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto log_p =
          plain_head(variant.files, head, std::span(values).subspan(row * kHidden, kHidden),
                     variant.output(variant.files, head));
      std::vector<std::size_t> order(log_p.size());
      std::iota(order.begin(), order.end(), 0U);
      std::sort(order.begin(), order.end(), [&](auto a, auto b) { return log_p[a] > log_p[b]; });
      for (std::size_t i = 0; i < kCount; ++i) {
        const bool reduced = weights.config.reduced_vocabulary;
        const std::size_t token = reduced ? 4 * order[i] + 3 : order[i];
        EXPECT_EQ(found.token[row * kCount + i], static_cast<TokenId>(token));
        EXPECT_NEAR(found.log_p[row * kCount + i], log_p[order[i]], 1e-4);
      }
    }
  }
}

std::vector<float> targets(const HeadFiles&, int) { return target_output(); }
std::vector<float> shared(const HeadFiles& files, int) { return files.values("lm_head.weight"); }
std::vector<float> own(const HeadFiles& files, int head) {
  return files.values(fmt::format("{}.1.weight", head));
}

INSTANTIATE_TEST_SUITE_P(All, MedusaHeads,
                         testing::Values(Variant{"TheTargetsOutput", sharing_heads(), targets},
                                         Variant{"TwoBlocks", sharing_heads(2), targets},
                                         Variant{"WithoutBias", without_bias(), targets},
                                         Variant{"OwnOutputs", own_outputs(), own},
                                         Variant{"ReducedVocabulary", reduced_vocabulary(),
                                                 shared}),
                         [](const auto& of) { return std::string(of.param.name); });

HeadFiles in_vllm_layout(HeadFiles files) {
  for (int head = 0; head < kHeads; ++head) {
    for (const char* part : {"weight", "bias"}) {
      files.rename(fmt::format("{}.0.linear.{}", head, part),
                   fmt::format("blocks.{}.layers.0.{}", head, part));
    }
    files.rename(fmt::format("{}.1.weight", head), fmt::format("lm_heads.{}.weight", head));
  }
  return files;
}

HeadFiles with_prefix(const std::string& prefix, const HeadFiles& files) {
  HeadFiles renamed{files.config, {}};
  for (const auto& [name, tensor] : files.tensors) renamed.tensors[prefix + name] = tensor;
  return renamed;
}

std::vector<EagleRound> drafts_of(const HeadFiles& files, const std::string& options = "") {
  const test::TemporaryFolder folder;
  files.write(folder);
  const auto drafter = eagle_target().make_drafter("medusa" + options, folder.path().string());
  const std::vector<TokenId> prompt = {1, 403, 407, 261, 378, 432, 383, 286};
  return run_eagle(eagle_target(), *drafter, prompt, 5);
}

TEST(MedusaLayouts, AConvertedCopyGivesIdenticalDrafts) {
  const auto official = drafts_of(own_outputs());
  for (const HeadFiles& files :
       {in_vllm_layout(own_outputs()), with_prefix("medusa_head.", own_outputs()),
        with_prefix("medusa_heads.", in_vllm_layout(own_outputs()))}) {
    const auto converted = drafts_of(files);
    for (std::size_t round = 0; round < official.size(); ++round) {
      EXPECT_EQ(converted[round].tree.tokens(), official[round].tree.tokens());
      EXPECT_EQ(converted[round].tree.log_ps(), official[round].tree.log_ps());
    }
  }
}

/// vLLM's files with `original_lm_head` have one matrix, under the name of the first head's.
TEST(MedusaLayouts, AnOutputMatrixThatAllShareMayBeTheFirstHeads) {
  HeadFiles files = own_outputs(), sharing = own_outputs();
  for (int head = 0; head < kHeads; ++head) {
    files.add(fmt::format("{}.1.weight", head), {kVocabulary, kHidden}, files.values("0.1.weight"));
    if (head > 0) sharing.tensors.erase(fmt::format("{}.1.weight", head));
  }
  sharing.config["original_lm_head"] = true;
  const auto each = drafts_of(files), all = drafts_of(sharing);
  for (std::size_t round = 0; round < each.size(); ++round) {
    EXPECT_EQ(all[round].tree.tokens(), each[round].tree.tokens());
    EXPECT_EQ(all[round].tree.log_ps(), each[round].tree.log_ps());
  }
  sharing.config.erase("original_lm_head");
  EXPECT_NE(test::message_of([&] { load(sharing); }).find("expected a tensor \"1.1.weight\""),
            std::string::npos);
}

TEST(MedusaLayouts, TheOfficialFileNameIsFound) {
  const test::TemporaryFolder folder;
  own_outputs().write(folder);
  std::filesystem::rename(folder.path() / "model.safetensors",
                          folder.path() / "medusa_lm_head.safetensors");
  const Json described = describe_medusa(open_checkpoint(folder.path()));
  EXPECT_EQ(described.at("variant"), "Medusa");
  EXPECT_EQ(described.at("medusa_heads"), kHeads);
  EXPECT_EQ(described.at("output"), "one matrix per head");
}

TEST(MedusaDrafter, DraftsFromTheFeatureBeforeTheRoot) {
  // Heads whose blocks add nothing guess what the target itself said after that feature: the root.
  HeadFiles files = sharing_heads();
  for (auto& [name, tensor] : files.tensors) tensor.bytes.assign(tensor.bytes.size(), '\0');
  for (const EagleRound& round : drafts_of(files, ":topk=1,levels=3")) {
    EXPECT_EQ(round.tree.tokens(), (std::vector<TokenId>(4, round.tree[0].token)));
  }
}

TEST(MedusaDrafter, OptionsLimitTheTree) {
  for (const EagleRound& round : drafts_of(sharing_heads(), ":topk=2,levels=2,nodes=5")) {
    EXPECT_EQ(round.tree.draft_nodes(), 5);
    for (NodeId node = 1; node < round.tree.size(); ++node) EXPECT_LE(round.tree.depth(node), 2);
  }
}

struct Refusal {
  const char* name;
  const char* message;  // contains it
  std::function<void(HeadFiles&)> spoil;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class MedusaRefusals : public testing::TestWithParam<Refusal> {};

TEST_P(MedusaRefusals, TheMessageNamesTheField) {
  HeadFiles files = own_outputs();
  GetParam().spoil(files);
  const std::string message = test::message_of([&] { load(files); });
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(
    All, MedusaRefusals,
    testing::Values(Refusal{"MissingBlock", "expected a tensor \"0.0.linear.weight\", found none",
                            [](HeadFiles& f) { f.tensors.erase("0.0.linear.weight"); }},
                    Refusal{"MissingOutput", "expected a tensor \"2.1.weight\" (vLLM's name: ",
                            [](HeadFiles& f) { f.tensors.erase("2.1.weight"); }},
                    Refusal{"BlockOfAnotherShape",
                            "\"1.0.linear.weight\": expected [64, 64], found [128, 32]",
                            [](HeadFiles& f) {
                              f.tensors.at("1.0.linear.weight").shape = {128, 32};
                            }},
                    Refusal{"UnknownTensor", "\"0.0.norm.weight\" besides",
                            [](HeadFiles& f) { f.add("0.0.norm.weight", {1}, {1}); }},
                    Refusal{"OtherVocabulary", "\"vocab_size\": expected 512, found 32000",
                            [](HeadFiles& f) { f.config["vocab_size"] = 32000; }},
                    Refusal{"ReducedWithoutMap", "expected 512, found 256",
                            [](HeadFiles& f) {
                              for (int head = 0; head < kHeads; ++head) {
                                f.add(fmt::format("{}.1.weight", head), {256, kHidden},
                                      std::vector<float>(256 * kHidden));
                              }
                            }}),
    [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace talon::medusa_heads_test
