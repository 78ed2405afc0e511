#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "eagle_run.h"
#include "golden_data.h"

namespace talon::eagle_traces_test {
namespace {

// Below this gap between two scores a different order of summation may decide otherwise (README of
// the golden).
constexpr double kSafeGap = 1e-4;
constexpr double kScoreTolerance = 1e-4;

struct Tally {
  int rounds = 0;     // whose accepted length was compared
  int trees = 0;      // compared node by node
  int tree_sets = 0;  // compared as sets of paths
  double worst_score = 0;
};

std::vector<TokenId> tokens_of(const Json& json) { return json.get<std::vector<TokenId>>(); }

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

void compare_tree(const EagleRound& ours, const Json& entry, const std::vector<NodeId>& parent,
                  Tally& tally) {
  const auto tokens = tokens_of(entry.at("draft_tokens"));
  const bool safe = entry.at("draft_gap").get<double>() > kSafeGap;
  if (!safe) {
    if (entry.value("cut_gap", 0.0) <= kSafeGap) return;
    EXPECT_EQ(paths_of(ours.tree.tokens(), ours.tree.parents()), paths_of(tokens, parent));
    ++tally.tree_sets;
    return;
  }
  ASSERT_EQ(ours.tree.tokens(), tokens);
  ASSERT_EQ(ours.tree.parents(), parent);
  ++tally.trees;
  if (!entry.contains("score")) return;
  for (std::size_t node = 0; node < tokens.size(); ++node) {
    EXPECT_EQ(ours.tree.depth(static_cast<NodeId>(node)), entry.at("position")[node]);
    const double expected = entry.at("score")[node];
    EXPECT_NEAR(ours.tree.nodes[node].log_p, expected, kScoreTolerance) << "node " << node;
    tally.worst_score =
        std::max(tally.worst_score, std::abs(ours.tree.nodes[node].log_p - expected));
  }
}

/// The row of `retrieve` that was best, as far as it was accepted, is our path.
void compare_path(const EagleRound& ours, const Json& entry, const Json& retrieve) {
  const Json& row = retrieve.at(entry.at("best_candidate").get<std::size_t>());
  std::vector<NodeId> path;
  for (std::size_t i = 0; i <= entry.at("accept_length").get<std::size_t>(); ++i)
    path.push_back(row[i]);
  const bool safe = entry.at("draft_gap").get<double>() > kSafeGap;
  EXPECT_TRUE(!safe || ours.path == path);
}

struct RecordedRun {
  const Json& json;
  std::vector<TokenId> prompt;
  std::vector<TokenId> naive;
  const Json* static_tree = nullptr;
};

/// The recorded round that begins where ours does, or -1: after a round decided by a tiny gap the
/// two may be out of step.
int round_at(const RecordedRun& run, int seq_len) {
  int at = static_cast<int>(run.prompt.size());
  for (std::size_t round = 0; round < run.json.at("accept_lengths").size(); ++round) {
    if (at == seq_len) return static_cast<int>(round);
    at += run.json.at("accept_lengths")[round].get<int>() + 1;
  }
  return -1;
}

void compare_round(const EagleRound& ours, const RecordedRun& run, Tally& tally) {
  const int index = round_at(run, ours.seq_len);
  if (index < 0) return;
  const auto round = static_cast<std::size_t>(index);
  SCOPED_TRACE(fmt::format("round {}", round));
  EXPECT_EQ(ours.tree[0].token, run.json.at("roots")[round]);
  const char* gaps = run.json.contains("cut_gaps") ? "cut_gaps" : "draft_gaps";
  if (run.json.at(gaps)[round].get<double>() > kSafeGap) {
    EXPECT_EQ(std::ssize(ours.path) - 1,
              run.json.at("accept_lengths")[round].get<std::ptrdiff_t>());
    ++tally.rounds;
  }
  if (!run.json.contains("trace") || run.json.at("trace").empty()) return;
  const Json& entry = run.json.at("trace").at(round);
  EXPECT_EQ(entry.at("seq_len"), ours.seq_len);
  EXPECT_EQ(entry.at("next_token"), ours.next);
  const Json& shape = run.static_tree ? *run.static_tree : entry;
  compare_tree(ours, entry, shape.at("parent").get<std::vector<NodeId>>(), tally);
  compare_path(ours, entry, shape.at("retrieve"));
}

void compare_run(const std::string& drafter, const std::string& head, const RecordedRun& run,
                 Tally& tally) {
  const auto made = eagle_target().make_drafter(drafter, head);
  const auto rounds = run_eagle(eagle_target(), *made, run.prompt, run.json.at("rounds"));
  for (const EagleRound& round : rounds) compare_round(round, run, tally);
  const auto text = emitted(rounds);
  const std::size_t common = std::min(text.size(), run.naive.size());
  EXPECT_TRUE(std::equal(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(common),
                         run.naive.begin()));
  if (text.size() == run.json.at("output_ids").size()) {
    EXPECT_EQ(text, tokens_of(run.json.at("output_ids")));
    EXPECT_EQ(rounds.back().next, run.json.at("next_token"));
  }
}

std::string drafter_of(const std::string& method, const Json& run) {
  if (method == "eagle1") return "eagle:weights=f32";
  return fmt::format("{}:topk={},levels={},nodes={},weights=f32", method.substr(0, 6),
                     run.at("top_k").get<int>(), run.at("depth").get<int>() + 1,
                     run.at("total_token").get<int>() - 1);
}

enum class Runs { sample, all };

/// All traced settings on all prompts; of the others each on one prompt, unless all are asked for.
bool is_wanted(const Json& prompt, std::size_t setting, Runs runs) {
  const Json& trace = prompt.at("runs").at(setting).value("trace", Json());
  const bool sampled = setting % 6 == prompt.at("prompt").get<std::size_t>() % 6;
  return runs == Runs::all || !trace.empty() || sampled;
}

Tally compare_file(const std::string& name, Runs runs = Runs::sample) {
  const Json golden = read_golden_json("stories260k/" + name + ".json.zst");
  const Json* static_tree = golden.contains("static_tree") ? &golden.at("static_tree") : nullptr;
  Tally tally;
  for (const Json& prompt : golden.at("prompts")) {
    for (std::size_t setting = 0; setting < prompt.at("runs").size(); ++setting) {
      if (!is_wanted(prompt, setting, runs)) continue;
      const Json& run = prompt.at("runs").at(setting);
      const std::string drafter = drafter_of(golden.at("method"), run);
      SCOPED_TRACE(fmt::format("prompt {}, {}", prompt.at("prompt").get<int>(), drafter));
      compare_run(
          drafter, golden.at("head"),
          {run, tokens_of(prompt.at("prompt_ids")), tokens_of(prompt.at("naive_ids")), static_tree},
          tally);
      if (testing::Test::HasFailure()) return tally;  // one failing run says enough
    }
  }
  testing::Test::RecordProperty("trees", tally.trees);
  testing::Test::RecordProperty("worst_score", fmt::format("{:.2g}", tally.worst_score));
  return tally;
}

TEST(EagleGolden, Eagle1DraftsTheOfficialStaticTrees) {
  const Tally tally = compare_file("eagle1");
  EXPECT_GT(tally.trees, 80);
}

TEST(EagleGolden, Eagle2DraftsTheOfficialDynamicTreesAtAllSettings) {
  const Tally tally = compare_file("eagle2");
  EXPECT_GT(tally.trees, 300);
  EXPECT_GT(tally.rounds, 600);
}

TEST(EagleGolden, Eagle3WithAReducedVocabularyDraftsTheOfficialTreesAtAllSettings) {
  const Tally tally = compare_file("eagle3");
  EXPECT_GT(tally.trees, 300);
  EXPECT_GT(tally.rounds, 600);
}

TEST(EagleGolden, Eagle3WithTheFullVocabularyDraftsTheOfficialTreesAtAllSettings) {
  const Tally tally = compare_file("eagle3_fullvocab");
  EXPECT_GT(tally.trees, 300);
  EXPECT_GT(tally.rounds, 600);
}

TEST(EagleGoldenLong, EveryRecordedRunIsReproduced) {
  for (const char* name : {"eagle1", "eagle2", "eagle3", "eagle3_fullvocab"}) {
    SCOPED_TRACE(name);
    const Tally tally = compare_file(name, Runs::all);
    fmt::print("{}: {} rounds, {} trees, {} trees as sets, largest difference of a score {:.2g}\n",
               name, tally.rounds, tally.trees, tally.tree_sets, tally.worst_score);
  }
}

}  // namespace
}  // namespace talon::eagle_traces_test
