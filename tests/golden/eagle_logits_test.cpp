#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "draft/head/gguf_head.h"
#include "draft/head/head_network.h"
#include "eagle_head_files.h"
#include "eagle_run.h"

// What becomes of products with an output matrix: a scale and a cap, of the target or of the head.
namespace talon::eagle_logits_test {
namespace {

constexpr int kRows = 3, kHidden = 64, kBest = 20;
constexpr LogitForm kForm{0.5F, 2};

/// The heads' target, with logits of that form.
EagleTarget& target_with(const LogitForm& form) {
  static EagleTarget target;
  target.model.config.logit_scale = form.scale;
  target.model.config.logit_cap = form.cap;
  return target;
}

struct Outputs {
  std::vector<float> logits;
  RowChildren best;
};

/// Of the head's output matrix after some features.
Outputs outputs_of(const HeadFiles& files, const EagleTarget& target) {
  const test::TemporaryFolder folder;
  files.write(folder);
  const HeadWeights head =
      load_head(open_checkpoint(folder.path()), target.model, {.layout = WeightLayout::f32});
  HeadNetwork network(head, {}, kRows, 64);
  std::vector<float> values(static_cast<std::size_t>(kRows * kHidden));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = 3 * std::sin(0.7F * static_cast<float>(i));
  const Buffer features = target.backend->allocate(kRows, kHidden);
  target.backend->upload(values, features.view());
  return {network.logits(features.view()), network.top_children(features.view(), kBest, {})};
}

void expect_formed(const Outputs& found, const Outputs& plain) {
  ASSERT_EQ(found.logits.size(), plain.logits.size());
  for (std::size_t i = 0; i < found.logits.size(); ++i) {
    const float expected = kForm.cap * std::tanh(plain.logits[i] * kForm.scale / kForm.cap);
    EXPECT_NEAR(found.logits[i], expected, 1e-4) << i;
  }
}

TEST(LogitForms, OfATargetAreThoseOfHeadsThatHaveItsRows) {
  const HeadFiles head = HeadFiles::read("eagle1_head");
  const Outputs plain = outputs_of(head, eagle_target());
  const Outputs formed = outputs_of(head, target_with(kForm));
  expect_formed(formed, plain);
  const std::size_t width = formed.logits.size() / kRows;
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto logit = [&](std::size_t i) {
      return formed.logits[row * width + static_cast<std::size_t>(formed.best.token[i])];
    };
    const std::size_t first = row * kBest;
    for (std::size_t i = first; i < first + kBest; ++i) {
      EXPECT_NEAR(formed.best.log_p[i] - formed.best.log_p[first], logit(i) - logit(first), 1e-4);
    }
  }
}

TEST(LogitForms, OfATargetAreNotThoseOfHeadsThatHaveOtherRows) {
  const HeadFiles head = HeadFiles::read("eagle3_head");
  EXPECT_EQ(outputs_of(head, target_with(kForm)).logits, outputs_of(head, eagle_target()).logits);
}

TEST(LogitForms, ThatTheFilesOfAHeadSayCount) {
  for (const char* golden : {"eagle1_head", "eagle3_head"}) {
    const HeadFiles silent = HeadFiles::read(golden);
    const Outputs plain = outputs_of(silent, eagle_target());
    HeadFiles head = silent;
    head.config["logit_scale"] = kForm.scale;
    head.config["final_logit_softcapping"] = kForm.cap;
    expect_formed(outputs_of(head, eagle_target()), plain);
    head.config["logit_scale"] = 1;
    head.config["final_logit_softcapping"] = 0;
    EXPECT_EQ(outputs_of(head, target_with(kForm)).logits, plain.logits) << golden;
  }
}

/// Log-probabilities of the likeliest tokens for the first place.
std::map<TokenId, float> first_guesses(EagleTarget& target, const std::string& drafter,
                                       const HeadFiles& files) {
  const test::TemporaryFolder folder;
  files.write(folder);
  const auto made = target.make_drafter(drafter + ":weights=f32,topk=64,levels=1,nodes=64",
                                        folder.path().string());
  const std::vector<TokenId> prompt = {1, 403, 407, 261, 378, 432, 383, 286, 261, 376};
  const auto rounds = run_eagle(target, *made, prompt, 1);
  std::map<TokenId, float> guesses;
  for (NodeId node = 1; node < rounds[0].tree.size(); ++node)
    guesses[rounds[0].tree[node].token] = rounds[0].tree[node].log_p;
  EXPECT_EQ(guesses.size(), 64U) << drafter;
  return guesses;
}

/// A head that guesses the target's own logits.
HeadFiles idle_medusa() {
  HeadFiles files;
  files.config = {{"vocab_size", 512}};
  files.add("0.0.linear.weight", {kHidden, kHidden}, std::vector<float>(kHidden * kHidden));
  return files;
}

TEST(LogitForms, OfATargetAreThoseOfEveryDrafterThatHasItsRows) {
  for (const auto& [drafter, files] :
       {std::pair{"eagle2", HeadFiles::read("eagle1_head")}, std::pair{"medusa", idle_medusa()},
        std::pair{"dflash", HeadFiles::read("../blocks/dflash/head")}}) {
    const auto plain = first_guesses(eagle_target(), drafter, files);
    const auto scaled = first_guesses(target_with({0.5F, 0}), drafter, files);
    std::vector<double> differences;  // the same of all tokens
    for (const auto& [token, log_p] : scaled)
      if (plain.contains(token)) differences.push_back(log_p - 0.5 * plain.at(token));
    ASSERT_GE(differences.size(), 60U) << drafter;
    for (const double difference : differences)
      EXPECT_NEAR(difference, differences[0], 1e-3) << drafter;
  }
}

TEST(LogitForms, OfDSparkAreThoseBeforeItsBias) {
  HeadFiles files = HeadFiles::read("../blocks/dspark/head"), unbiased;
  files.tensors.erase("lm_head.weight");
  unbiased = files;
  unbiased.add("markov_head.markov_w2.weight", {512, 16}, std::vector<float>(512 * 16));
  const auto base = first_guesses(eagle_target(), "dspark", unbiased);
  const auto biased = first_guesses(eagle_target(), "dspark", files);
  const auto scaled = first_guesses(target_with({0.5F, 0}), "dspark", files);
  std::vector<double> differences;  // the same of all tokens
  for (const auto& [token, log_p] : scaled) {
    if (!base.contains(token) || !biased.contains(token)) continue;
    const double bias = biased.at(token) - base.at(token);
    differences.push_back(log_p - 0.5 * base.at(token) - bias);
  }
  ASSERT_GE(differences.size(), 8U);
  for (const double difference : differences) EXPECT_NEAR(difference, differences[0], 1e-3);
}

TEST(LogitForms, GoIntoTheFileThatIsMadeOfAHead) {
  const test::TemporaryFolder folder;
  const auto golden = std::filesystem::path(TALON_TEST_DATA) / "golden/stories260k/eagle1_head";
  const auto file = folder.path() / "head.gguf";
  Checkpoint target = golden_target();
  write_gguf_head(open_checkpoint(golden), target, HeadStorage::f32, file);
  EXPECT_FALSE(open_checkpoint(file).metadata.contains("eagle.logit_scale"));

  target.metadata["model_type"] = "granite";
  target.metadata["logits_scaling"] = 4;
  write_gguf_head(open_checkpoint(golden), target, HeadStorage::f32, file);
  const HeadWeights head = load_head(open_checkpoint(file), eagle_target().model);
  EXPECT_EQ(head.logit_form, (LogitForm{0.25F, 0}));
}

}  // namespace
}  // namespace talon::eagle_logits_test
