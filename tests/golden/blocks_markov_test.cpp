#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>

#include "backend/cpu/cpu.h"
#include "blocks_formulas.h"
#include "draft/block/block_config.h"
#include "eagle_head_files.h"
#include "eagle_run.h"
#include "model/cache/cache_shape.h"

// DSpark's heads with biases of all kinds against their formulas.
namespace talon {
static void PrintTo(MarkovKind kind, std::ostream* out) { *out << name_of(kind); }
}  // namespace talon

namespace talon::blocks_markov_test {
namespace {

using block_formulas::Formulas;
using block_formulas::Guess;

constexpr std::int64_t kWidth = 64, kRank = 16;
constexpr int kPlaces = Formulas::kPlaces;
constexpr double kTolerance = 1e-4;  // of log-probabilities

const std::vector<TokenId> kPrompt = {1, 403, 407, 261, 378, 432, 383, 286, 261, 376};

std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-0.25F, 0.25F);
  std::vector<float> values(count);
  for (float& each : values) each = value(random);
  return values;
}

void add_random(HeadFiles& files, const std::string& name, std::int64_t rows, std::int64_t cols) {
  const auto count = static_cast<std::size_t>(rows);
  files.add(name + ".weight", {rows, cols},
            random_values(count * static_cast<std::size_t>(cols), 1));
  files.add(name + ".bias", {rows}, random_values(count, 2));
}

/// The recorded head with a bias of that kind, at random.
HeadFiles head_of(MarkovKind kind) {
  HeadFiles files = HeadFiles::read("../blocks/dspark/head");
  if (kind == MarkovKind::gated) {
    files.config["markov_head_type"] = "gated";
    add_random(files, "markov_head.gate_proj", kRank, kWidth + kRank);
  } else if (kind == MarkovKind::rnn) {
    files.config["markov_head_type"] = "rnn";
    add_random(files, "markov_head.joint_proj", 3 * kRank, 2 * kRank + kWidth);
  }
  return files;
}

/// Each node behind the `given` first ones is one of the `children` likeliest tokens behind its
/// parent and has the chance of the formulas. What these say behind each node.
std::vector<Guess> expect_formulas(const Formulas& formulas, const DraftTree& tree, int children,
                                   double tolerance = kTolerance, NodeId given = 0) {
  std::vector<Guess> behind = {formulas.of_root(tree[0].token)};
  for (NodeId id = 1; id < tree.size(); ++id) {
    const DraftTree::Node& node = tree[id];
    const Guess above = behind[static_cast<std::size_t>(node.parent)];
    const double log_p = above.log_p[static_cast<std::size_t>(node.token)];
    if (id > given) {
      EXPECT_NEAR(node.log_p - tree[node.parent].log_p, log_p, tolerance) << "node " << id;
      const auto likelier = std::count_if(above.log_p.begin(), above.log_p.end(),
                                          [&](double other) { return other > log_p + tolerance; });
      EXPECT_LT(likelier, children) << "node " << id;
    }
    const bool goes_on = node.depth < kPlaces;
    behind.push_back(goes_on ? formulas.after(above.state, node.token, node.depth) : Guess{});
  }
  return behind;
}

DraftTree first_tree(EagleTarget& target, const HeadFiles& files, const std::string& options) {
  const test::TemporaryFolder folder;
  files.write(folder);
  const auto drafter = target.make_drafter("dspark:weights=f32," + options, folder.path().string());
  return run_eagle(target, *drafter, kPrompt, 1)[0].tree;
}

class MarkovKinds : public testing::TestWithParam<MarkovKind> {
 protected:
  HeadFiles files = head_of(GetParam());
  Formulas formulas(TokenId root) const { return {files, GetParam(), kPrompt, root}; }
};

TEST_P(MarkovKinds, DraftChainsByTheirFormulas) {
  const DraftTree tree = first_tree(eagle_target(), files, "topk=1");
  EXPECT_EQ(tree.draft_nodes(), kPlaces);
  expect_formulas(formulas(tree[0].token), tree, 1);
}

TEST(BlockActivation, IsWhatTheConfigurationSays) {
  HeadFiles files = head_of(MarkovKind::vanilla);
  files.config["hidden_act"] = "gelu_pytorch_tanh";
  const DraftTree tree = first_tree(eagle_target(), files, "topk=1");
  EXPECT_EQ(tree.draft_nodes(), kPlaces);
  const Formulas formulas(files, MarkovKind::vanilla, kPrompt, tree[0].token);
  expect_formulas(formulas, tree, 1);
}

/// Whether a node's chance would be another if the node above its parent had the state of another
/// one of its level.
bool are_told_apart_by_states(const Formulas& formulas, const DraftTree& tree,
                              const std::vector<Guess>& behind) {
  for (NodeId id = 1; id < tree.size(); ++id) {
    const NodeId parent = tree[id].parent;
    const NodeId above = parent == 0 ? 0 : tree[parent].parent;
    const auto token = static_cast<std::size_t>(tree[id].token);
    for (NodeId other = 1; above > 0 && other < tree.size(); ++other) {
      if (other == above || tree[other].depth != tree[above].depth) continue;
      const Guess swapped = formulas.after(behind[static_cast<std::size_t>(other)].state,
                                           tree[parent].token, tree[parent].depth);
      const double own = behind[static_cast<std::size_t>(parent)].log_p[token];
      if (std::abs(swapped.log_p[token] - own) > 10 * kTolerance) return true;
    }
  }
  return false;
}

TEST_P(MarkovKinds, DraftTreesByTheirFormulas) {
  const DraftTree tree = first_tree(eagle_target(), files, "topk=3,nodes=40");
  EXPECT_EQ(tree.draft_nodes(), 40);
  const Formulas expected = formulas(tree[0].token);
  const std::vector<Guess> behind = expect_formulas(expected, tree, 3);
  if (GetParam() == MarkovKind::rnn) {
    EXPECT_TRUE(are_told_apart_by_states(expected, tree, behind));
  }
}

/// Rows of several trees share a call, in which each goes on from its own, also behind trees that
/// have ended.
TEST_P(MarkovKinds, DraftBesideOthersAsAlone) {
  const test::TemporaryFolder folder;
  files.write(folder);
  const auto drafter =
      eagle_target().make_drafter("dspark:weights=f32,topk=3,nodes=20", folder.path().string());
  constexpr TreePlan kPlans[] = {{1000, /*levels=*/2, 1000}, kNoLimit, {1000, 3, 1000}, kNoLimit};
  std::vector<std::unique_ptr<DraftState>> states;
  std::vector<DraftTree> alone, beside;
  for (const std::ptrdiff_t length : {10, 4, 7, 5}) {
    const FeaturedText text =
        featured({kPrompt.begin(), kPrompt.begin() + length}, drafter->taps());
    states.push_back(drafter->start());
    observe(*drafter, *states.back(), text, 0, static_cast<int>(length));
    const TreePlan& plan = kPlans[alone.size()];
    alone.push_back(propose(*drafter, *states.back(), text.tokens.back(), plan));
    beside.emplace_back(text.tokens.back());
  }
  std::vector<DraftJob> jobs;
  for (std::size_t i = 0; i < states.size(); ++i)
    jobs.push_back({states[i].get(), nullptr, kPlans[i], &beside[i]});
  drafter->propose(jobs);
  for (std::size_t i = 0; i < states.size(); ++i) {
    EXPECT_EQ(alone[i].draft_nodes(), i == 0 ? 3 + 9 : 20);
    EXPECT_EQ(beside[i].tokens(), alone[i].tokens());
    EXPECT_EQ(beside[i].parents(), alone[i].parents());
    EXPECT_EQ(beside[i].log_ps(), alone[i].log_ps());
  }
}

TokenId least_likely(const Guess& guess) {
  const auto least = std::min_element(guess.log_p.begin(), guess.log_p.end());
  return static_cast<TokenId>(least - guess.log_p.begin());
}

TEST_P(MarkovKinds, GoOnBelowBranchesOfOtherDrafters) {
  const test::TemporaryFolder folder;
  files.write(folder);
  const auto drafter =
      eagle_target().make_drafter("dspark:weights=f32,topk=3,nodes=20", folder.path().string());
  const TokenId root = kPrompt.back();
  const Formulas expected(files, GetParam(), {kPrompt.begin(), kPrompt.end() - 1}, root);
  const Guess at_root = expected.of_root(root);
  const TokenId first = least_likely(at_root);
  const TokenId second = least_likely(expected.after(at_root.state, first, 1));
  DraftTree tree(root);
  const NodeId above = tree.add(0, first, -0.01F);
  const NodeId below = tree.add(above, second, -0.02F);
  const auto state = drafter->start();
  observe(*drafter, *state, featured(kPrompt, drafter->taps()), 0,
          static_cast<int>(kPrompt.size()));
  DraftJob job{state.get(), nullptr, kNoLimit, &tree};
  drafter->propose(std::span(&job, 1));
  const auto parents = tree.parents();
  EXPECT_GT(std::count(parents.begin(), parents.end(), below), 0);
  expect_formulas(expected, tree, 3, kTolerance, below);
}

/// It reads the place and the token before, whatever the bias is made of.
TEST_P(MarkovKinds, EndChainsWhereTheyAreUnsure) {
  const DraftTree whole = first_tree(eagle_target(), files, "topk=1");
  const auto behind = expect_formulas(formulas(whole[0].token), whole, 1);
  int ends = 0;
  double least = behind[0].sure;  // of the places before
  for (std::size_t place = 1; place < kPlaces; ++place) {
    const double sure = behind[place].sure;
    if (sure < least - 1e-3) {
      const std::string stop = fmt::format("topk=1,stop={}", (sure + least) / 2);
      EXPECT_EQ(first_tree(eagle_target(), files, stop).draft_nodes(), static_cast<int>(place));
      ++ends;
    }
    least = std::min(least, sure);
  }
  EXPECT_GT(ends, 0);
}

/// The goldens' target where it usually runs.
EagleTarget target_on_the_processor() {
  EagleTarget target;
  target.cache.reset();
  target.model = Model{};
  target.backend = make_cpu_backend({.threads = 2, .pin = false});
  target.model = load_model(golden_target(), *target.backend);
  target.cache = std::make_unique<KvCache>(
      *target.backend,
      within_budget(kv_shape(target.model.config, 1, KvType::f32), std::size_t{16} << 20));
  return target;
}

TEST_P(MarkovKinds, DraftTreesByTheirFormulasOnTheProcessor) {
  EagleTarget target = target_on_the_processor();
  const DraftTree tree = first_tree(target, files, "topk=3,nodes=40");
  EXPECT_EQ(tree.draft_nodes(), 40);
  expect_formulas(formulas(tree[0].token), tree, 3, /*tolerance=*/5e-3);
}

TEST_P(MarkovKinds, AreNamedByTheDescription) {
  const test::TemporaryFolder folder;
  files.write(folder);
  const Json head = describe_block_head(open_checkpoint(folder.path()));
  EXPECT_EQ(head.at("variant"), "DSpark");
  EXPECT_EQ(head.at("markov_head"), files.config.at("markov_head_type"));
}

INSTANTIATE_TEST_SUITE_P(All, MarkovKinds,
                         testing::Values(MarkovKind::vanilla, MarkovKind::gated, MarkovKind::rnn),
                         [](const auto& test) { return std::string(name_of(test.param)); });

struct BadBias {
  const char* expected;  // a part of the message
  MarkovKind kind;
  std::function<void(HeadFiles&)> spoil;
};

std::vector<float> zeros(std::size_t count) { return std::vector<float>(count); }

const BadBias kBadBiases[] = {
    {"expected a tensor \"markov_head.gate_proj.weight\", found none", MarkovKind::gated,
     [](HeadFiles& files) { files.tensors.erase("markov_head.gate_proj.weight"); }},
    {"expected a tensor \"markov_head.gate_proj.bias\", found none", MarkovKind::gated,
     [](HeadFiles& files) { files.tensors.erase("markov_head.gate_proj.bias"); }},
    {"\"markov_head.gate_proj.weight\": expected [16, 80], found [16, 64]", MarkovKind::gated,
     [](HeadFiles& files) {
       files.add("markov_head.gate_proj.weight", {16, 64}, zeros(1024));
     }},
    {"\"markov_head.gate_proj.weight\": expected [16, 80], found [1280]", MarkovKind::gated,
     [](HeadFiles& files) { files.add("markov_head.gate_proj.weight", {1280}, zeros(1280)); }},
    {"\"markov_head.gate_proj.bias\": expected [16], found [80]", MarkovKind::gated,
     [](HeadFiles& files) { files.add("markov_head.gate_proj.bias", {80}, zeros(80)); }},
    {"expected a tensor \"markov_head.joint_proj.weight\", found none", MarkovKind::rnn,
     [](HeadFiles& files) { files.tensors.erase("markov_head.joint_proj.weight"); }},
    {"\"markov_head.joint_proj.weight\": expected [48, 96], found [48, 80]", MarkovKind::rnn,
     [](HeadFiles& files) {
       files.add("markov_head.joint_proj.weight", {48, 80}, zeros(3840));
     }},
    {"\"markov_head.joint_proj.weight\": expected [48, 96], found [32, 96]", MarkovKind::rnn,
     [](HeadFiles& files) {
       files.add("markov_head.joint_proj.weight", {32, 96}, zeros(3072));
     }},
    {"\"markov_head.joint_proj.bias\": expected [48], found [1, 48]", MarkovKind::rnn,
     [](HeadFiles& files) {
       files.add("markov_head.joint_proj.bias", {1, 48}, zeros(48));
     }},
    {"\"markov_head.joint_proj.weight\": expected finite values", MarkovKind::rnn,
     [](HeadFiles& files) {
       auto values = files.values("markov_head.joint_proj.weight");
       values.back() = std::numeric_limits<float>::quiet_NaN();
       files.add("markov_head.joint_proj.weight", {48, 96}, values);
     }},
    // Parts of another kind, or of none.
    {"found \"markov_head.gate_proj.bias\" besides", MarkovKind::gated,
     [](HeadFiles& files) { files.config.erase("markov_head_type"); }},
    {"found \"markov_head.gate_proj.bias\" besides", MarkovKind::rnn,
     [](HeadFiles& files) { add_random(files, "markov_head.gate_proj", 16, 80); }},
    {"expected a tensor \"markov_head.joint_proj.weight\", found none", MarkovKind::gated,
     [](HeadFiles& files) { files.config["markov_head_type"] = "rnn"; }},
};

TEST(MarkovBias, IsRefusedByTheTensorThatDisagrees) {
  for (const BadBias& bad : kBadBiases) {
    HeadFiles files = head_of(bad.kind);
    bad.spoil(files);
    const test::TemporaryFolder folder;
    files.write(folder);
    const std::string message =
        test::message_of([&] { eagle_target().make_drafter("dspark", folder.path().string()); });
    EXPECT_NE(message.find(bad.expected), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace talon::blocks_markov_test
