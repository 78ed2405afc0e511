#include <gtest/gtest.h>

#include <cmath>

#include "draft/coupling/coupling.h"
#include "draft/lookup/test_proposals.h"
#include "draft/registry.h"

namespace talon::grid_test {
namespace {

using test::likeliest_path;
using test::proposal;

TEST(Grid, ACellIsGuessedFromWhatStandsAroundIt) {
  // At the right of a 7 stands a 1 three times, below a 6, as the next cell is, a 2.
  const std::vector<TokenId> text = {9, 5, 9, 5, 7, 1, 7, 1, 9, 6, 9, 5, 7, 2, 7, 1, 9, 6, 9, 6, 7};
  const DraftTree tree = proposal("grid:row=4,levels=1", text);
  EXPECT_EQ(likeliest_path(tree), (std::vector<TokenId>{2}));
}

TEST(Grid, PatternsOfRowsGoOn) {
  std::vector<TokenId> text;
  for (int row = 0; row < 4; ++row) {
    for (int column = 0; column < 6; ++column) text.push_back((row + column) % 3 + 10);
  }
  const DraftTree tree = proposal("grid:row=6,levels=5,children=1", text);
  EXPECT_EQ(likeliest_path(tree), (std::vector<TokenId>{11, 12, 10, 11, 12}));
}

TEST(Grid, ChancesOfChildrenDoNotExceedOneAndPlansAreKept) {
  std::vector<TokenId> text;
  for (int i = 0; i < 200; ++i) text.push_back(i * i % 11);
  const DraftTree tree = proposal("grid:row=8", text, 9, 3);
  EXPECT_EQ(tree.draft_nodes(), 9);
  double sum = 0;
  for (const NodeId child : tree.children(0)) sum += std::exp(tree[child].log_p);
  EXPECT_GT(sum, 0);
  EXPECT_LE(sum, 1);
  for (NodeId node = 1; node < tree.size(); ++node) EXPECT_LE(tree.depth(node), 3);
}

TEST(Grid, NothingIsProposedAfterANewCode) {
  EXPECT_EQ(proposal("grid:row=4", {1, 2, 3, 4}).draft_nodes(), 0);
}

/// Five codes followed, four of them twice. With noise that favours the fifth it comes first.
TEST(Grid, TheNoiseOfAllThatFollowedIsLookedAtBeforeFourAreKept) {
  std::vector<TokenId> text;
  TokenId border = 100;
  for (const TokenId code : {1, 2, 3, 4, 1, 2, 3, 4, 5})
    text.insert(text.end(), {50, code, border++});
  text.push_back(50);
  const SamplerOptions hot{.temperature = 1};
  auto drafter = make_drafter("grid:row=64,levels=1", {});
  auto state = drafter->start();
  drafter->observe(*state, {text, 0, {}, false});
  bool favours_fifth = false;
  for (std::uint64_t seed = 1; seed <= 1000 && !favours_fifth; ++seed) {
    const PositionRandom random(seed, 0);
    const DraftPlace place{&random, text.size(), hot.temperature};
    favours_fifth = true;
    for (TokenId code = 1; code <= 4; ++code) {
      if (2 * chance_factor(place, code) >= chance_factor(place, 5)) favours_fifth = false;
    }
    if (!favours_fifth) continue;
    DraftTree tree(50);
    DraftJob job{state.get(), nullptr, {64, 64, 64},
                 &tree,       &random, static_cast<int>(text.size()) - 1};
    job.sampler = &hot;
    job.races = true;
    drafter->propose({&job, 1});
    EXPECT_EQ(tree.draft_nodes(), 4);
    EXPECT_EQ(likeliest_path(tree), std::vector<TokenId>{5});
  }
  EXPECT_TRUE(favours_fifth);
}

TEST(Grid, NothingIsProposedThatTheRequestBans) {
  const std::vector<TokenId> text = {9, 5, 9, 5, 7, 1, 7, 1, 9, 6, 9, 5, 7, 2, 7, 1, 9, 6, 9, 6, 7};
  auto drafter = make_drafter("grid:row=4,levels=1", {});
  auto state = drafter->start();
  drafter->observe(*state, {text, 0, {}, false});
  const LogitChanges changes(SamplerOptions{.banned = {2}});
  DraftTree tree(7);
  DraftJob job{state.get(), nullptr, {64, 64, 64}, &tree};
  job.changes = &changes;
  drafter->propose({&job, 1});
  EXPECT_EQ(tree.child(0, 2), -1);
  EXPECT_EQ(likeliest_path(tree), (std::vector<TokenId>{1}));
}

/// Draws pictures one after the other with one drafter.
class Gallery {
 public:
  explicit Gallery(const std::string& options) : drafter_(make_drafter(options, {})) {}

  void finish(const std::vector<TokenId>& picture, const TextOwner& owner = {},
              bool has_ended = true) {
    drafter_->finish(*begin(picture, owner), has_ended);
  }
  /// The tree of a picture that begins so.
  DraftTree proposal_after(const std::vector<TokenId>& begun, const TextOwner& owner = {}) {
    const auto state = begin(begun, owner);
    DraftTree tree(begun.back());
    DraftJob job{state.get(), nullptr, {64, 64, 64}, &tree};
    drafter_->propose({&job, 1});
    check_invariants(tree);
    return tree;
  }

 private:
  std::unique_ptr<DraftState> begin(const std::vector<TokenId>& text, const TextOwner& owner) {
    auto state = drafter_->resume({}, owner, {});
    drafter_->observe(*state, {text, 0, {}, false});
    return state;
  }

  std::unique_ptr<Drafter> drafter_;
};

const std::vector<TokenId> kPicture = {11, 12, 13, 14, 15, 16, 17, 18, 19};

TEST(Grid, WithAHistoryEarlierPicturesGoOn) {
  Gallery gallery("grid:row=3,history=100,levels=4");
  EXPECT_EQ(gallery.proposal_after({11, 12}).draft_nodes(), 0);
  gallery.finish(kPicture);
  EXPECT_EQ(likeliest_path(gallery.proposal_after({11, 12})),
            (std::vector<TokenId>{13, 14, 15, 16}));
  Gallery without("grid:row=3");
  without.finish(kPicture);
  EXPECT_EQ(without.proposal_after({11, 12}).draft_nodes(), 0);
}

TEST(Grid, PicturesOfATenantAndThoseThatDidNotEndAreNotRemembered) {
  Gallery gallery("grid:row=3,history=100");
  gallery.finish(kPicture, {.tenant = 7});
  gallery.finish(kPicture, {.reuses = false});
  gallery.finish(kPicture, {}, /*has_ended=*/false);
  EXPECT_EQ(gallery.proposal_after({11, 12}).draft_nodes(), 0);
  gallery.finish(kPicture);
  EXPECT_GT(gallery.proposal_after({11, 12}).draft_nodes(), 0);
  EXPECT_EQ(gallery.proposal_after({11, 12}, {.tenant = 7}).draft_nodes(), 0);
}

TEST(Grid, OfItsHistoryTheOldestIsForgotten) {
  Gallery gallery("grid:row=3,history=20");
  gallery.finish(kPicture);
  for (TokenId code = 100; code < 300; code += 100) {
    std::vector<TokenId> other = kPicture;
    for (TokenId& token : other) token += code;
    gallery.finish(other);
  }
  EXPECT_EQ(gallery.proposal_after({11, 12}).draft_nodes(), 0);
  EXPECT_GT(gallery.proposal_after({111, 112}).draft_nodes(), 0);
  EXPECT_GT(gallery.proposal_after({211, 212}).draft_nodes(), 0);
}

}  // namespace
}  // namespace talon::grid_test
