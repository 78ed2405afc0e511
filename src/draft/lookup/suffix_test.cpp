#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/error.h"
#include "draft/conversation_memory.h"
#include "draft/coupling/coupling.h"
#include "draft/lookup/repeat_odds.h"
#include "draft/lookup/test_proposals.h"
#include "draft/registry.h"

namespace talon::suffix_test {
namespace {

using test::likeliest_path;
using Tokens = std::vector<TokenId>;

/// A suffix drafter with one text.
struct Text {
  explicit Text(const std::string& options = "suffix") : Text(make(options)) {}
  explicit Text(std::shared_ptr<Drafter> the_drafter)
      : drafter(std::move(the_drafter)), state(drafter->start()) {}
  static std::shared_ptr<Drafter> make(const std::string& text) { return make_drafter(text, {}); }
  void add(const Tokens& tokens) {
    CommittedTokens committed;
    committed.tokens = tokens;
    committed.first_position = length;
    drafter->observe(*state, committed);
    length += static_cast<int>(tokens.size());
    last = tokens.back();
  }
  DraftTree propose(int nodes = 64, int levels = 64) {
    return extend(DraftTree(last), nodes, levels);
  }
  DraftTree extend(DraftTree tree, int nodes = 64, int levels = 64) {
    DraftJob job;
    job.state = state.get();
    job.plan = {nodes, levels, nodes};
    job.tree = &tree;
    job.random = random;
    job.position = length - 1;
    job.sampler = sampler;
    job.races = random != nullptr;
    job.changes = changes;
    drafter->propose(std::span(&job, 1));
    check_invariants(tree);
    return tree;
  }
  const SamplerOptions* sampler = nullptr;  // null: greedily
  const PositionRandom* random = nullptr;   // null: drafts do not know the noise
  const LogitChanges* changes = nullptr;    // null: the request bans nothing
  std::shared_ptr<Drafter> drafter;
  std::unique_ptr<DraftState> state;
  int length = 0;
  TokenId last = 0;
};

Tokens random_text() {
  std::mt19937 random(4);
  Tokens tokens;
  for (int i = 0; i < 400; ++i) tokens.push_back(static_cast<TokenId>(random() % 4));
  return tokens;
}

double chance(const DraftTree& tree, TokenId child) {
  const NodeId node = tree.child(0, child);
  return node < 0 ? 0 : std::exp(static_cast<double>(tree[node].log_p));
}

TEST(SuffixDrafter, ContinuesAsTheTextWentOnBefore) {
  Text text("suffix:least=0");
  text.add({1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 3, 4, 5});
  EXPECT_EQ(likeliest_path(text.propose()),
            (Tokens{6, 7, 8, 9, 20, 21, 3, 4, 5, 6, 7, 8, 9, 20, 21, 3}));
}

TEST(SuffixDrafter, ProposesNothingForATextWithoutRepeats) {
  Text text;
  text.add({1, 2, 3, 4, 5});
  EXPECT_EQ(text.propose().draft_nodes(), 0);
}

TEST(SuffixDrafter, PrefersWhatFollowedMoreOften) {
  Text text;
  text.add({7, 1, 20, 7, 1, 21, 7, 2, 22, 7, 1, 23, 7});
  const DraftTree tree = text.propose();
  EXPECT_GT(chance(tree, 1), 2 * chance(tree, 2));
  EXPECT_GT(chance(tree, 2), 0);
  EXPECT_LE(chance(tree, 1) + chance(tree, 2), 1.0);
}

TEST(SuffixDrafter, ALongerMatchOutweighsAMoreFrequentContinuation) {
  Text text;
  text.add({5, 6, 7, 1, 9, 7, 2, 8, 7, 2, 9, 7, 2, 8, 5, 6, 7});
  EXPECT_EQ(likeliest_path(text.propose()).front(), 1);
}

TEST(SuffixDrafter, StaysWithinItsPlan) {
  Text text("suffix:least=0");
  text.add(random_text());
  const DraftTree tree = text.propose(9, 3);
  EXPECT_EQ(tree.draft_nodes(), 9);
  for (NodeId node = 0; node < tree.size(); ++node) EXPECT_LE(tree.depth(node), 3);
  EXPECT_LE(text.propose(64, 64).draft_nodes(), 32);
}

/// A cut to fewer nodes is the same as a smaller plan: nodes come in order of their chance.
TEST(SuffixDrafter, GrowsTheLikeliestNodesFirst) {
  Text text("suffix:least=0");
  text.add(random_text());
  DraftTree large = text.propose(30);
  const DraftTree small = text.propose(10);
  large.truncate(10);
  EXPECT_EQ(large.tokens(), small.tokens());
  const std::vector<float> log_p = large.log_ps();
  EXPECT_TRUE(std::is_sorted(log_p.rbegin(), log_p.rend()));
}

TEST(SuffixDrafter, LearnsFromTheTextHowMuchAMatchIsWorth) {
  Text faithful, fickle;
  Tokens repeats, breaks;
  for (int i = 0; i < 300; ++i) {
    repeats.push_back(i % 10);
    breaks.push_back(i % 3 == 2
                         ? 100 + i
                         : i % 3);  // 0 1 x 0 1 y ...: a 1 is never followed by what followed one
  }
  repeats.resize(298);
  breaks.resize(299);
  faithful.add(repeats);
  fickle.add(breaks);
  EXPECT_GT(chance(faithful.propose(), 8), 0.9);
  const DraftTree tree = fickle.propose();
  double surest = 0;
  for (const TokenId token : breaks) surest = std::max(surest, chance(tree, token));
  EXPECT_LT(surest, 0.05);
}

/// Texts at temperature 1 never go on as they did after the same two tokens; greedy ones begin from
/// what greedy ones did.
TEST(SuffixDrafter, LearnsApartByTemperature) {
  const SamplerOptions hot{.temperature = 1};
  const auto drafter = Text::make("suffix:least=0");
  Text fickle(drafter);
  fickle.sampler = &hot;
  fickle.add({0, 1});
  fickle.propose();  // from here on it is known how its tokens are drawn
  Tokens breaks, begun;
  for (TokenId i = 0; i < 300; ++i) breaks.insert(breaks.end(), {100 + i, 0, 1});
  for (TokenId i = 50; i < 57; ++i) begun.insert(begun.end(), {0, 1, i});
  begun.insert(begun.end(), {0, 1});
  fickle.add(breaks);
  const auto chance_after_begun = [&](Text text, const SamplerOptions* sampler) {
    text.sampler = sampler;
    text.add(begun);
    return chance(text.propose(), 50);
  };
  const double alone = chance_after_begun(Text("suffix:least=0"), nullptr);
  EXPECT_GT(alone, 0);
  EXPECT_EQ(chance_after_begun(Text("suffix:least=0"), &hot), alone);
  EXPECT_EQ(chance_after_begun(Text(drafter), nullptr), alone);
  EXPECT_LT(chance_after_begun(Text(drafter), &hot), 0.2 * alone);
}

TEST(SuffixDrafter, LearnsThatALongCopyGoesOn) {
  Text text;
  Tokens all;
  for (int i = 0; i < 450; ++i) all.push_back(i % 300);
  text.add(all);
  const DraftTree tree = text.propose(8);
  ASSERT_EQ(tree.depth(8), 8);
  EXPECT_GT(std::exp(tree[8].log_p), 0.8F);
}

TEST(SuffixDrafter, GrowsBelowTheBranchesOfOthers) {
  Text text;
  text.add({1, 2, 3, 4, 5, 6, 9, 8, 3, 4, 7});
  DraftTree tree(7);
  // What a head might say; 7 was never followed by anything.
  const NodeId other = tree.add(0, 2, -0.5f, 2);
  EXPECT_EQ(text.propose().draft_nodes(), 0);
  const DraftTree grown = text.extend(tree);
  const NodeId below = grown.child(other, 3);
  ASSERT_GT(below, 0);
  EXPECT_GT(grown.child(below, 4), 0);
  EXPECT_EQ(grown[other].sources, 2u);
  EXPECT_EQ(grown[below].sources, 1u);
}

/// A head may think little of what the text repeats.
TEST(SuffixDrafter, CopiesOnThroughUnlikelyBranchesOfOthers) {
  for (const float chance : {0.004F, 0.1F}) {
    Text text("suffix:least=0.01");
    text.add({1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 1, 2, 3, 4, 5});
    const Tokens alone = likeliest_path(text.propose());
    ASSERT_GE(alone.size(), 3U);
    DraftTree tree(5);
    tree.add(0, alone.front(), std::log(chance), 2);
    const DraftTree grown = text.extend(tree);
    EXPECT_EQ(likeliest_path(grown), alone);
    // A step is believed in as much as without the other's branch, relative to what that gave.
    const DraftTree free = text.propose();
    const NodeId below = grown.child(grown.child(0, alone[0]), alone[1]);
    const NodeId own = free.child(free.child(0, alone[0]), alone[1]);
    ASSERT_TRUE(below > 0 && own > 0);
    EXPECT_NEAR(grown[below].log_p - std::log(chance),
                free[own].log_p - free[free.child(0, alone[0])].log_p, 1e-5);
  }
}

TEST(SuffixDrafter, RemembersNothingOfATenantsTexts) {
  for (const std::uint64_t tenant : {0, 1}) {
    const auto drafter = Text::make("suffix:history=1000");
    Text first(drafter);
    first.state->owner.tenant = tenant;
    first.add({1, 2, 3, 4, 5, 6});
    drafter->finish(*first.state, true);
    Text second(drafter), other(drafter);
    other.state->owner.tenant = 2;
    second.add({9, 2, 3, 4, 5});
    other.add({9, 2, 3, 4, 5});
    EXPECT_EQ(likeliest_path(second.propose()), tenant == 0 ? Tokens{6} : Tokens{});
    EXPECT_EQ(other.propose().draft_nodes(), 0);
  }
}

/// From the prompt's last tokens on, and again behind words that the text has in its place.
TEST(SuffixDrafter, FollowsWhatIsExpected) {
  for (const char* name : {"suffix", "ngram+suffix"}) {
    Text text(name);
    const Tokens expected = {7, 8, 9, 20, 21, 22, 23, 24, 25, 26, 27};
    text.state = text.drafter->resume(Tokens{1, 2, 3}, {}, expected);
    text.length = 3;
    text.add({7, 8, 9});
    Tokens path = likeliest_path(text.propose());
    EXPECT_EQ(path, (Tokens{20, 21, 22, 23, 24, 25, 26, 27}));
    text.add({20, 21, 50, 51, 24, 25});
    path = likeliest_path(text.propose());
    EXPECT_EQ(path, (Tokens{26, 27}));
  }
}

/// It would find itself there when it goes on.
TEST(SuffixDrafter, DoesNotRememberATextThatIsSetBack) {
  Text first("suffix:history=1000");
  first.add({1, 2, 3, 4, 5, 6});
  first.drafter->finish(*first.state, false);
  Text second(first.drafter);
  second.add({9, 2, 3, 4, 5});
  EXPECT_EQ(second.propose().draft_nodes(), 0);
}

TEST(SuffixDrafter, RemembersEarlierConversationsOnlyIfAsked) {
  for (const int history : {0, 1000}) {
    Text first("suffix:history=" + std::to_string(history));
    first.add({1, 2, 3, 4, 5, 6});
    Text second(first.drafter);
    second.add({9, 2, 3});
    EXPECT_EQ(second.propose().draft_nodes(), 0);  // the first still goes on
    first.drafter->finish(*first.state, true);
    first.state.reset();
    second.add({4});  // its first token after the other ended: then it has a place in the memory
    second.add({5});
    const DraftTree tree = second.propose();
    EXPECT_EQ(likeliest_path(tree), history > 0 ? Tokens{6} : Tokens{});
  }
}

TEST(SuffixDrafter, DoesNotRememberAConversationThatWasNotFinished) {
  Text failed("suffix:history=1000");
  failed.add({1, 2, 3, 4, 5, 6});
  failed.state.reset();
  Text second(failed.drafter);
  second.add({9, 2, 3, 4, 5});
  EXPECT_EQ(second.propose().draft_nodes(), 0);
}

/// With 100 behind 7,400 of them and at first before 1, 2 and 3. Copied so far it is so long that
/// what a long match says, of one earlier place, has a chance of 1 to the last bit.
Tokens copied_for_long() {
  constexpr int kPlace = 7400;
  Tokens tokens = {100, 1, 100, 2, 100, 3}, all;
  for (int i = 0; i < kPlace + 100; ++i) all.push_back(i == kPlace ? 100 : 1000 + i);
  tokens.insert(tokens.end(), all.begin(), all.end());
  tokens.insert(tokens.end(), all.begin(), all.begin() + kPlace + 1);
  return tokens;
}

TEST(SuffixDrafter, OrdersWhatHasNoChanceBesideWhatIsCertain) {
  Text text("suffix:least=0");
  text.add(copied_for_long());
  const DraftTree tree = text.propose();
  const NodeId certain = tree.child(0, 1000 + 7401), other = tree.child(0, 2);
  ASSERT_TRUE(certain > 0 && other > 0);
  EXPECT_EQ(tree[certain].log_p, 0);
  EXPECT_EQ(tree[other].log_p, DraftTree::kLeastLogP);
  const std::vector<float> log_p = tree.log_ps();
  EXPECT_TRUE(std::is_sorted(log_p.rbegin(), log_p.rend()));
  for (NodeId node = 1; node < tree.size(); ++node) {
    EXPECT_LE(tree.step_chance(node), 1) << node;
  }
}

/// A text that is expected ends where the longest suffix does, and that it goes on so is certain.
TEST(SuffixDrafter, SharesNoChanceByTheNoiseOfItsPlace) {
  Text text("suffix:least=0");
  text.add(copied_for_long());
  Tokens expected = {50, 1, 50, 2, 50, 3}, known;
  for (TokenId token = 200; token < 220; ++token) known.push_back(token);
  known.push_back(50);
  expected.insert(expected.end(), known.begin(), known.end());
  text.state = text.drafter->resume(known, {}, expected);
  const PositionRandom random(3, 0);
  SamplerOptions sampler;
  sampler.temperature = 1;
  DraftTree tree(50);
  DraftJob job;
  job.state = text.state.get();
  job.plan = {16, 4, 16};
  job.tree = &tree;
  job.random = &random;
  job.sampler = &sampler;
  job.races = true;
  text.drafter->propose(std::span(&job, 1));
  check_invariants(tree);
  for (const TokenId token : {1, 2, 3}) {
    const NodeId node = tree.child(0, token);
    ASSERT_GT(node, 0) << token;
    EXPECT_EQ(tree[node].log_p, DraftTree::kLeastLogP);
  }
}

/// Nine tokens followed, eight of them twice. With noise that favours the ninth it comes first.
TEST(SuffixDrafter, LooksAtTheNoiseOfAllThatFollowedBeforeItKeepsEight) {
  Tokens tokens;
  TokenId border = 100;
  for (const TokenId token : {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9})
    tokens.insert(tokens.end(), {50, token, border++});
  tokens.push_back(50);
  const SamplerOptions hot{.temperature = 1};
  Text text("suffix:least=0,levels=1");
  text.sampler = &hot;
  text.add(tokens);
  EXPECT_EQ(text.propose().child(0, 9), -1);
  bool favours_ninth = false;
  for (std::uint64_t seed = 1; seed <= 1000 && !favours_ninth; ++seed) {
    const PositionRandom random(seed, 0);
    const DraftPlace place{&random, tokens.size(), hot.temperature};
    favours_ninth = true;
    for (TokenId token = 1; token <= 8; ++token) {
      if (2 * chance_factor(place, token) >= chance_factor(place, 9)) favours_ninth = false;
    }
    if (!favours_ninth) continue;
    text.random = &random;
    const DraftTree tree = text.propose();
    EXPECT_EQ(tree.draft_nodes(), 8);
    EXPECT_EQ(likeliest_path(tree), Tokens{9});
  }
  EXPECT_TRUE(favours_ninth);
}

TEST(SuffixDrafter, ProposesNothingThatTheRequestBans) {
  Text text("suffix:least=0");
  text.add({50, 1, 100, 50, 1, 100, 50, 2, 102, 50});
  ASSERT_EQ(likeliest_path(text.propose()).front(), 1);
  const LogitChanges changes(SamplerOptions{.logit_bias = {{102, -100.0F}}, .banned = {1}});
  text.changes = &changes;
  const DraftTree tree = text.propose();
  const NodeId next = tree.child(0, 2);
  ASSERT_GT(next, 0);
  EXPECT_EQ(tree.child(0, 1), -1);
  EXPECT_EQ(tree.child(next, 102), -1);
}

TEST(ConversationMemory, KeepsToItsBound) {
  ConversationMemory memory(100);
  for (int conversation = 0; conversation < 50; ++conversation) {
    Tokens tokens;
    for (int i = 0; i < 5 + conversation * 3; ++i) tokens.push_back(conversation * 7 + i);
    memory.add(tokens);
    EXPECT_LE(memory.size(), 100);
  }
  EXPECT_GT(memory.size(), 40);
}

TEST(ConversationMemory, AConversationThatGoesOnIsRememberedOnce) {
  ConversationMemory memory(1000);
  memory.add(Tokens{1, 2, 3});
  memory.add(Tokens{1, 2, 3, 4, 5});
  EXPECT_EQ(memory.size(), 1 + 5);
  memory.add(Tokens{1, 2});
  EXPECT_EQ(memory.size(), 1 + 5 + 1 + 2);
}

TEST(RepeatOdds, ApproachWhatWasObserved) {
  RepeatOdds odds;
  EXPECT_LT(odds.chance(1, 1), odds.chance(5, 1));
  for (int i = 0; i < 1000; ++i) odds.observe(5, 1, i % 4 == 0);
  EXPECT_NEAR(odds.chance(6, 1), 0.25, 0.03);
  EXPECT_EQ(odds.chance(7, 1), RepeatOdds().chance(7, 1));
  RepeatOdds aged = odds.aged();
  EXPECT_NEAR(aged.chance(5, 1), odds.chance(5, 1), 1e-9);
  for (int i = 0; i < 50; ++i) aged.observe(5, 1, true);
  EXPECT_GT(aged.chance(5, 1), 0.7);
}

}  // namespace
}  // namespace talon::suffix_test
