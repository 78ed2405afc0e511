#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/error.h"
#include "draft/registry.h"
#include "model/model.h"

namespace talon::jacobi_test {
namespace {

/// What a target draws at a place after a token: its whole context here.
using Target = std::function<TokenId(std::size_t place, TokenId last)>;
/// What it would draw in place of `drawn`, and of others that it cannot have.
using Next = std::function<TokenId(TokenId drawn, std::span<const TokenId> others)>;

/// The engine's loop around the drafter: proposes, checks, shows, accepts.
class Loop {
 public:
  /// model: null: none is known. next: null: it is not known either.
  Loop(const std::string& drafter, Target target, std::vector<TokenId> prompt,
       const Model* model = nullptr, Next next = nullptr)
      : drafter_(make_drafter(drafter, {.target = model})),
        state_(drafter_->start()),
        target_(std::move(target)),
        next_(std::move(next)),
        text_(std::move(prompt)) {
    drafter_->observe(*state_, {text_, 0, {}, false});
  }

  /// Returns how many drafted tokens were right.
  int round(int nodes = 64, int levels = 64) {
    return round_of(DraftTree(text_.back()), nodes, levels);
  }
  /// The tree holds what others drafted.
  int round_of(DraftTree tree, int nodes = 64, int levels = 64) {
    DraftJob job{state_.get(), nullptr, {nodes, levels, nodes}, &tree};
    drafter_->propose({&job, 1});
    check_invariants(tree);
    std::vector<TokenId> drawn;
    for (NodeId node = 0; node < tree.size(); ++node) {
      const std::size_t place = text_.size() + static_cast<std::size_t>(tree.depth(node));
      drawn.push_back(target_(place, tree[node].token));
    }
    const auto drawn_after = [&](NodeId node) { return drawn[static_cast<std::size_t>(node)]; };
    const auto next_after = [&](NodeId node, std::span<const TokenId> others) {
      return next_ ? next_(drawn_after(node), others) : TokenId(-1);
    };
    drafter_->saw(*state_, tree, TokenAfter(drawn_after, next_after));
    const int first = static_cast<int>(text_.size());
    for (NodeId node = 0; node >= 0;) {
      text_.push_back(drawn[static_cast<std::size_t>(node)]);
      node = tree.child(node, text_.back());
    }
    const std::span<const TokenId> all = text_;
    drafter_->observe(*state_, {all.subspan(static_cast<std::size_t>(first)), first});
    tree_ = tree;
    return static_cast<int>(text_.size()) - first - 1;
  }

  /// Of the last round.
  const DraftTree& tree() const { return tree_; }
  const std::vector<TokenId>& text() const { return text_; }

 private:
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<DraftState> state_;
  Target target_;
  Next next_;
  std::vector<TokenId> text_;
  DraftTree tree_{0};
};

TEST(Jacobi, DrawsThatDependOnTheirPlaceAloneComeTrueInTheSecondRound) {
  Loop loop("jacobi:window=8", [](std::size_t place, TokenId) { return TokenId(100 + place); },
            {1, 2, 3});
  EXPECT_EQ(loop.round(), 0);
  EXPECT_EQ(loop.round(), 8);
}

TEST(Jacobi, DrawsBeyondAWrongTokenAreKept) {
  // At every tenth place the draw depends on the token before it: a guess there is wrong once.
  Loop loop("jacobi:window=8",
            [](std::size_t place, TokenId last) {
              return TokenId(place % 10 == 0 ? 1000 + last % 7 + place : 100 + place);
            },
            {1, 2, 3});
  int right = 0;
  for (int i = 0; i < 20; ++i) right += loop.round();
  EXPECT_GT(right, 70) << "of 160 that were drafted";
}

TEST(Jacobi, StaysWithinThePlanAndGoesOnBeyondIt) {
  Loop loop("jacobi:window=8", [](std::size_t place, TokenId) { return TokenId(100 + place); },
            {1, 2, 3});
  loop.round();
  EXPECT_EQ(loop.round(/*nodes=*/3), 3);
  EXPECT_EQ(loop.tree().draft_nodes(), 3);
  EXPECT_EQ(loop.round(/*nodes=*/64, /*levels=*/2), 2);
  EXPECT_EQ(loop.round(), 1) << "eight were drawn ahead, seven of them are used up";
}

TEST(Jacobi, NewPlacesBeginAsTheRowAbove) {
  Loop loop("jacobi:window=3,row=4", [](std::size_t, TokenId) { return TokenId(9); },
            {1, 2, 3, 4, 5, 6});
  loop.round();
  EXPECT_EQ(loop.tree().tokens(), (std::vector<TokenId>{6, 3, 4, 5}));
}

TEST(Jacobi, OfAPictureTheFirstRowDoesNotBeginAsThePrompt) {
  Model model;
  model.config.vocabulary = 10;  // the prompt's tokens lie behind the codes
  model.config.image = ImagePlan{3, 4, ImagePlan::Prompt::words, 4};
  Loop loop(
      "jacobi:window=3", [](std::size_t, TokenId) { return TokenId(9); }, {12, 13, 14, 15, 9},
      &model);
  loop.round();
  EXPECT_EQ(loop.tree().tokens(), (std::vector<TokenId>{9, 9, 9, 9}));
}

TEST(Jacobi, GuessesThatComeTrueAreBelievedMore) {
  Loop loop("jacobi:window=4", [](std::size_t place, TokenId) { return TokenId(100 + place); },
            {1, 2, 3});
  for (int i = 0; i < 2; ++i) loop.round();
  const float first = loop.tree()[1].log_p;
  for (int i = 0; i < 8; ++i) loop.round();
  EXPECT_GT(loop.tree()[1].log_p, first);
}

/// The last digit counts 0, 1, 2, 0, ... on from that of the token before: what is drawn after a
/// wrong token is wrong at every place, and one of the two others is right.
TokenId next_digit(std::size_t place, TokenId last) {
  return static_cast<TokenId>(10 * place) + (last % 10 + 1) % 3;
}
TokenId other_digit(TokenId drawn, std::span<const TokenId> others) {
  for (int more = 1; more < 3; ++more) {
    const TokenId token = drawn - drawn % 10 + (drawn % 10 + more) % 3;
    if (std::find(others.begin(), others.end(), token) == others.end()) return token;
  }
  return -1;
}

TEST(Jacobi, AShortTreeHoldsWhatWouldHaveBeenDrawnInstead) {
  Loop chain("jacobi:window=8,width=1", next_digit, {1, 2, 3}, nullptr, other_digit);
  Loop tree("jacobi:window=8,width=3,depth=3", next_digit, {1, 2, 3}, nullptr, other_digit);
  int of_chain = chain.round(), of_tree = tree.round();
  EXPECT_EQ(of_tree, 0);
  for (int i = 0; i < 20; ++i) {
    const int right = tree.round();
    EXPECT_GE(right, 1) << "one of three guesses is right at the first place";
    of_tree += right;
    of_chain += chain.round();
    double sum = 0;
    for (const NodeId child : tree.tree().children(0)) sum += std::exp(tree.tree()[child].log_p);
    EXPECT_LE(sum, 1 + 1e-6);
  }
  EXPECT_GT(of_tree, of_chain);
}

TEST(Jacobi, APictureHasThreeGuessesForAPlaceUnlessItIsSaidOtherwise) {
  Model model;
  model.config.vocabulary = 10000;
  model.config.image = ImagePlan{3, 4, ImagePlan::Prompt::words, 4};
  const auto guesses = [&](const std::string& drafter, const Model* of) {
    Loop loop(drafter, next_digit, {1, 2, 3}, of, other_digit);
    for (int i = 0; i < 2; ++i) loop.round();
    int count = 0;
    for ([[maybe_unused]] const NodeId child : loop.tree().children(0)) ++count;
    return count;
  };
  EXPECT_EQ(guesses("jacobi", &model), 3);
  EXPECT_EQ(guesses("jacobi:width=1", &model), 1);
  EXPECT_EQ(guesses("jacobi", nullptr), 1);
}

TEST(Jacobi, AShortTreeStaysWithinThePlanAndItsDepth) {
  Loop loop("jacobi:window=8,width=3,depth=2", next_digit, {1, 2, 3}, nullptr, other_digit);
  for (int i = 0; i < 3; ++i) loop.round();
  std::vector<int> most(8);
  for (NodeId node = 0; node < loop.tree().size(); ++node) {
    int children = 0;
    for ([[maybe_unused]] const NodeId child : loop.tree().children(node)) ++children;
    if (children == 0) continue;
    int& count = most[static_cast<std::size_t>(loop.tree().depth(node))];
    count = std::max(count, children);
  }
  EXPECT_EQ(most, (std::vector<int>{3, 3, 1, 1, 1, 1, 1, 1}));
  loop.round(/*nodes=*/5);
  EXPECT_EQ(loop.tree().draft_nodes(), 5);
  loop.round(/*nodes=*/64, /*levels=*/1);
  EXPECT_LE(loop.tree().draft_nodes(), 3);
  EXPECT_EQ(loop.tree().levels(), 1);
}

TEST(Jacobi, TheChainIsCheckedWholeHoweverUnlikely) {
  Loop loop("jacobi:window=8", next_digit, {1, 2, 3}, nullptr, other_digit);
  for (int i = 0; i < 20; ++i) {
    loop.round(/*nodes=*/16);
    EXPECT_EQ(loop.tree().levels(), 8);
    EXPECT_LE(loop.tree().draft_nodes(), 16);
  }
}

TEST(Jacobi, BelowATokenStandsFirstWhatWasDrawnAfterThatVeryToken) {
  Loop loop("jacobi:window=8,width=2,depth=8", next_digit, {1, 2, 3}, nullptr, other_digit);
  int all = 0, right = 0;
  for (int i = 0; i < 30; ++i) {
    const std::size_t length = loop.text().size();
    loop.round();
    const DraftTree& tree = loop.tree();
    for (NodeId node = 1; node < tree.size(); ++node) {
      NodeId first = -1;
      for (const NodeId child : tree.children(node)) {
        if (first < 0 || tree[child].log_p > tree[first].log_p) first = child;
      }
      if (first < 0) continue;
      const std::size_t place = length + static_cast<std::size_t>(tree.depth(node));
      ++all;
      right += tree[first].token == next_digit(place, tree[node].token) ? 1 : 0;
    }
  }
  EXPECT_GT(right, all / 2) << "of " << all << "; a third by chance";
}

TEST(Jacobi, GrowsBelowTheNodesOfOthersAndGoesOnAfterThem) {
  // The first place is one that the drafter cannot know.
  const auto target = [](std::size_t place, TokenId) { return TokenId(100 + place); };
  Loop loop("jacobi:window=8,width=1", target, {1, 2, 3});
  DraftTree drafted(3);
  drafted.add(0, 103, -0.1F, 2);
  EXPECT_EQ(loop.round_of(drafted), 1) << "that of the others";
  EXPECT_EQ(loop.tree().child(0, 103), 1);
  const DraftTree::Children below = loop.tree().children(1);
  EXPECT_NE(below.begin(), below.end());
  EXPECT_EQ(loop.round(), 7) << "what was drawn behind it is known";
}

/// As DrafterTraits::extends_trees has it, also where it raises the chance of such a node.
TEST(Jacobi, ChancesBelowTheNodesOfOthersAreRelativeToThoseGiven) {
  const auto target = [](std::size_t place, TokenId) { return TokenId(100 + place); };
  Loop loop("jacobi:window=8,width=1", target, {1, 2, 3});
  loop.round();
  DraftTree drafted(103);
  drafted.add(0, 104, -3.0F, 2);
  loop.round_of(drafted);
  const DraftTree& tree = loop.tree();
  EXPECT_GT(tree[1].log_p, -2) << "its own guess, too";
  const NodeId below = tree.child(1, 105);
  ASSERT_GT(below, 1);
  EXPECT_NEAR(tree[below].log_p, -3 + tree[1].log_p, 1e-4) << "a guess of the same kind";
  const NodeId last = tree.child(below, 106);
  ASSERT_GT(last, below);
  EXPECT_NEAR(tree[last].log_p, -3 + 2 * tree[1].log_p, 1e-4);
}

TEST(Jacobi, WhereNobodySaysWhatComesNextTheOtherIsTheGuessBefore) {
  Loop loop("jacobi:window=4,width=2", next_digit, {1, 2, 3});
  for (int i = 0; i < 2; ++i) loop.round();
  std::vector<TokenId> tokens;
  for (const NodeId child : loop.tree().children(0)) tokens.push_back(loop.tree()[child].token);
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(tokens, (std::vector<TokenId>{3, 41})) << "3 stood there before anything was drawn";
}

TEST(Jacobi, OthersThatComeTrueAreBelievedMore) {
  Loop loop("jacobi:window=1,width=2,depth=1", next_digit, {1, 2, 3}, nullptr, other_digit);
  const auto belief_in_the_right_one = [&] {
    const TokenId root = loop.tree()[0].token;
    const TokenId right = next_digit(static_cast<std::size_t>(root) / 10 + 1, root);
    const NodeId child = loop.tree().child(0, right);
    EXPECT_GT(child, 0);
    return loop.tree()[std::max(child, 0)].log_p;
  };
  for (int i = 0; i < 2; ++i) loop.round();
  const float first = belief_in_the_right_one();
  for (int i = 0; i < 20; ++i) loop.round();
  EXPECT_GT(belief_in_the_right_one(), first);
}

TEST(Jacobi, ShapesThatAreNoneAreRefused) {
  for (const char* wrong :
       {"jacobi:width=9", "jacobi:width=2,depth=0", "jacobi:width=2,depth=9", "jacobi:depth=2"})
    EXPECT_THROW(make_drafter(wrong, {}), UsageError) << wrong;
}

}  // namespace
}  // namespace talon::jacobi_test
