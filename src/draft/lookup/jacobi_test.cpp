#include <gtest/gtest.h>

#include <functional>

#include "draft/registry.h"
#include "model/model.h"

namespace talon::jacobi_test {
namespace {

/// What a target draws at a place after a token: its whole context here.
using Target = std::function<TokenId(std::size_t place, TokenId last)>;

/// The engine's loop around the drafter: proposes, checks, shows, accepts.
class Loop {
 public:
  /// model: null: none is known.
  Loop(const std::string& drafter, Target target, std::vector<TokenId> prompt,
       const Model* model = nullptr)
      : drafter_(make_drafter(drafter, {.target = model})),
        state_(drafter_->start()),
        target_(std::move(target)),
        text_(std::move(prompt)) {
    drafter_->observe(*state_, {text_, 0, {}, false});
  }

  /// Returns how many drafted tokens were right.
  int round(int nodes = 64, int levels = 64) {
    DraftTree tree(text_.back());
    DraftJob job{state_.get(), nullptr, {nodes, levels, nodes}, &tree};
    drafter_->propose({&job, 1});
    check_invariants(tree);
    std::vector<TokenId> drawn;
    for (NodeId node = 0; node < tree.size(); ++node) {
      const std::size_t place = text_.size() + static_cast<std::size_t>(tree.depth(node));
      drawn.push_back(target_(place, tree[node].token));
    }
    drafter_->saw(*state_, tree,
                  [&](NodeId node) { return drawn[static_cast<std::size_t>(node)]; });
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

  const DraftTree& tree() const { return tree_; }

 private:
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<DraftState> state_;
  Target target_;
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

}  // namespace
}  // namespace talon::jacobi_test
