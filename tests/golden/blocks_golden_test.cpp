#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "draft/drafter.h"
#include "eagle_run.h"
#include "golden_data.h"

namespace talon::blocks_golden_test {
namespace {

// Below this gap between two scores a different order of summation may decide otherwise (README of
// the golden).
constexpr double kSafeGap = 1e-4;
constexpr double kScoreTolerance = 1e-4;

std::string head_of(const std::string& kind) {
  return std::string(TALON_TEST_DATA) + "/golden/blocks/" + kind + "/head";
}

std::vector<TokenId> tokens_of(const Json& json) { return json.get<std::vector<TokenId>>(); }

bool is_safe(const Json& gaps, std::size_t count) {
  const auto values = gaps.get<std::vector<double>>();
  return std::all_of(values.begin(),
                     values.begin() + static_cast<std::ptrdiff_t>(std::min(count, values.size())),
                     [](double gap) { return gap > kSafeGap; });
}

/// The first tokens of our tree: of each level the likeliest child of the likeliest.
std::vector<NodeId> first_path(const DraftTree& tree) {
  std::vector<NodeId> path;
  for (NodeId node = 0;;) {
    NodeId best = -1;
    for (const NodeId child : tree.children(node)) {
      if (best < 0 || tree[child].log_p > tree[best].log_p) best = child;
    }
    if (best < 0) return path;
    path.push_back(node = best);
  }
}

struct Tally {
  int rounds = 0;
  int scores = 0;
};

/// The recorded round that begins where ours does.
const Json* round_at(const Json& rounds, int start) {
  const auto found = std::find_if(rounds.begin(), rounds.end(),
                                  [&](const Json& round) { return round.at("start") == start; });
  return found == rounds.end() ? nullptr : &*found;
}

/// log_p of our chain, step by step, beside the recorded chances of the drafted tokens.
/// draft_vocabulary:
void compare_chain(const EagleRound& ours, const Json& round, std::size_t drafts, Tally& tally) {
  const auto path = first_path(ours.tree);
  const auto drafted = tokens_of(round.at("draft"));
  ASSERT_EQ(ours.tree[0].token, round.at("root"));
  if (!is_safe(round.at("draft_gap"), drafts)) return;
  ASSERT_EQ(path.size(), drafts);
  double above = 0;
  for (std::size_t i = 0; i < drafts; ++i) {
    const DraftTree::Node& node = ours.tree[path[i]];
    ASSERT_EQ(node.token, drafted[i]) << "place " << i;
    EXPECT_NEAR(node.log_p - above, round.at("top_logp")[i][0].get<double>(), kScoreTolerance);
    above = node.log_p;
    ++tally.scores;
  }
  const auto accepted = round.at("accepted").get<std::size_t>();
  if (round.contains("target_gap") && !is_safe(round.at("target_gap"), accepted + 1)) return;
  EXPECT_EQ(ours.path.size() - 1, accepted);
  EXPECT_EQ(ours.next, round.at("next"));
  ++tally.rounds;
}

void expect_plain_text(std::span<const EagleRound> rounds, const Json& run) {
  const auto text = emitted(rounds), naive = tokens_of(run.at("naive_ids"));
  const std::size_t common = std::min(text.size(), naive.size());
  EXPECT_TRUE(
      std::equal(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(common), naive.begin()));
}

/// The head's chains are those of the official code, in every round of the recording.
void expect_official_chains(const std::string& kind) {
  const Json golden = read_golden_json("blocks/" + kind + "/" + kind + ".json.zst");
  Tally tally;
  for (const Json& run : golden.at("prompts")) {
    const auto drafter = eagle_target().make_drafter(kind + ":topk=1,weights=f32", head_of(kind));
    const auto rounds = run_eagle(eagle_target(), *drafter, tokens_of(run.at("prompt_ids")),
                                  static_cast<int>(run.at("rounds").size()));
    for (const EagleRound& ours : rounds) {
      const Json* round = round_at(run.at("rounds"), ours.seq_len);
      if (round) compare_chain(ours, *round, round->at("draft").size(), tally);
    }
    expect_plain_text(rounds, run);
  }
  EXPECT_GE(tally.rounds, 70);
}

TEST(BlockGolden, DflashDraftsTheOfficialBlocks) { expect_official_chains("dflash"); }

TEST(BlockGolden, PeagleDraftsTheOfficialGuesses) { expect_official_chains("peagle"); }

TEST(BlockGolden, DsparkDraftsTheOfficialBlocksAndEndsThemWhereItIsUnsure) {
  const Json golden = read_golden_json("blocks/dspark/dspark.json.zst");
  Tally tally;
  int cut = 0;
  for (const Json& run : golden.at("runs")) {
    const double threshold = run.at("confidence_threshold");
    const auto drafter = eagle_target().make_drafter(
        fmt::format("dspark:topk=1,weights=f32,stop={}", threshold), head_of("dspark"));
    const auto rounds = run_eagle(eagle_target(), *drafter, tokens_of(run.at("prompt_ids")),
                                  static_cast<int>(run.at("rounds").size()));
    for (const EagleRound& ours : rounds) {
      const Json* round = round_at(run.at("rounds"), ours.seq_len);
      if (!round) continue;
      const auto verified = round->at("verified").get<std::size_t>();
      cut += verified < round->at("draft").size() ? 1 : 0;
      compare_chain(ours, *round, verified, tally);
    }
    expect_plain_text(rounds, run);
  }
  EXPECT_GE(tally.rounds, 150);
  EXPECT_GE(cut, 30);
}

std::set<std::vector<TokenId>> paths_of(const std::vector<TokenId>& token,
                                        const std::vector<NodeId>& parent) {
  std::set<std::vector<TokenId>> paths;
  for (std::size_t node = 1; node < token.size(); ++node) {
    std::vector<TokenId> path;
    for (std::size_t i = node; i > 0; i = static_cast<std::size_t>(parent[i]))
      path.push_back(token[i]);
    paths.insert(path);
  }
  return paths;
}

void compare_tree(const EagleRound& ours, const Json& round, Tally& tally) {
  auto tokens = tokens_of(round.at("tokens"));
  auto parents = round.at("parents").get<std::vector<NodeId>>();
  tokens.insert(tokens.begin(), round.at("root").get<TokenId>());
  parents.insert(parents.begin(), -1);
  if (round.at("cut_gap").get<double>() <= kSafeGap) return;
  if (round.at("min_score_gap").get<double>() <= kSafeGap) {
    EXPECT_EQ(paths_of(ours.tree.tokens(), ours.tree.parents()), paths_of(tokens, parents));
  } else {
    ASSERT_EQ(ours.tree.tokens(), tokens);
    ASSERT_EQ(ours.tree.parents(), parents);
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      EXPECT_NEAR(ours.tree.nodes[i].log_p, round.at("scores")[i - 1].get<double>(),
                  kScoreTolerance);
      ++tally.scores;
    }
    const auto accepted = round.at("accepted").get<std::vector<NodeId>>();
    EXPECT_TRUE(
        std::equal(ours.path.begin() + 1, ours.path.end(), accepted.begin(), accepted.end()));
  }
  ++tally.rounds;
}

/// Rounds that the official buffer cut short (README of the golden) are passed over.
TEST(BlockGolden, DflashGrowsTheTreesOfDdtree) {
  const Json golden = read_golden_json("blocks/dflash/ddtree.json.zst");
  const Json prompts = read_golden_json("blocks/dflash/dflash.json.zst").at("prompts");
  Tally tally;
  for (const Json& run : golden.at("runs")) {
    if (!run.contains("rounds")) continue;
    const auto drafter = eagle_target().make_drafter(
        fmt::format("dflash:topk=40,weights=f32,nodes={}", run.at("budget").get<int>()),
        head_of("dflash"));
    const Json& prompt = prompts.at(run.at("prompt").get<std::size_t>());
    const auto rounds = run_eagle(eagle_target(), *drafter, tokens_of(prompt.at("prompt_ids")),
                                  static_cast<int>(run.at("rounds").size()));
    for (const EagleRound& ours : rounds) {
      const Json* round = round_at(run.at("rounds"), ours.seq_len);
      if (round && !round->contains("short_block")) compare_tree(ours, *round, tally);
    }
    expect_plain_text(rounds, prompt);
  }
  EXPECT_GE(tally.rounds, 40);
}

}  // namespace
}  // namespace talon::blocks_golden_test
