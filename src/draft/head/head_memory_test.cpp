#include "draft/head/head_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "backend/reference/reference.h"

namespace talon::head_memory_test {
namespace {

constexpr int kWidth = 4;
constexpr int kPrompt = 30;

/// A network that computes nothing and counts what it is asked for.
class CountingRunner : public PairRunner {
 public:
  explicit CountingRunner(Backend& backend) : backend_(backend) {}
  Backend& backend() const override { return backend_; }
  int max_rows() const override { return 256; }
  int feature_width() const override { return kWidth; }
  int hidden() const override { return kWidth; }
  void forward(const HeadPass& pass) override { rows += static_cast<int>(pass.tokens.size()); }

  int rows = 0;

 private:
  Backend& backend_;
};

class HeadMemoryTest : public testing::Test {
 protected:
  /// A text of which the prompt was read.
  std::unique_ptr<HeadState> begin(TokenId first) {
    auto state = memory_.start();
    texts_[state.get()] = {first};
    observe(*state, kPrompt);
    return state;
  }

  /// `count` tokens become text.
  void observe(HeadState& state, int count) {
    std::vector<TokenId>& text = texts_.at(&state);
    const bool begins = state.observed == 0;
    if (begins) --count;
    const std::size_t known = begins ? 0 : text.size();
    for (; count > 0; --count) text.push_back(300 + static_cast<TokenId>(text.size()));
    const auto news = std::span(text).subspan(known);
    const int rows = static_cast<int>(news.size()) - (begins ? 1 : 0);
    memory_.observe(state, {.tokens = news,
                            .first_position = static_cast<int>(known),
                            .features = features_.view().row_range(0, rows),
                            .first_has_row = !begins});
  }

  /// An answer of 128 rounds beside three others, of which this one wants `drafts`, evenly.
  void answer(HeadState& state, int drafts) {
    constexpr int kRounds = 128;
    for (int round = 0; round < kRounds; ++round) {
      observe(state, 1);
      for (const auto& other : others_) observe(*other, 1);
      if (drafts == 0 || round % (kRounds / drafts) != 0) continue;
      memory_.want(1);
      HeadState* const only = &state;
      memory_.extend(std::span(&only, 1));
    }
  }

  std::unique_ptr<Backend> backend_ = make_reference_backend(1);
  Buffer features_ = backend_->allocate(kPrompt, kWidth);
  CountingRunner network_{*backend_};
  KvCache cache_{*backend_, {.layers = 1, .kv_heads = 1, .head_dim = kWidth, .pages = 200}};
  HeadMemory memory_{network_, cache_};
  std::map<const HeadState*, std::vector<TokenId>> texts_;
  std::vector<std::unique_ptr<HeadState>> others_;
};

TEST_F(HeadMemoryTest, RunsWhatIsLeftOfATextAtItsEndWhereDraftsAreWanted) {
  const auto state = begin(1);
  answer(*state, 64);
  EXPECT_LT(network_.rows, kPrompt + 128 - 1);
  memory_.finish(*state);
  EXPECT_EQ(network_.rows, kPrompt + 128 - 1);
  EXPECT_EQ(memory_.remembers(texts_.at(state.get()), {}), 128 + 1);  // whole pages
}

TEST_F(HeadMemoryTest, RunsAPromptThatComesSomeAtATimeInSmallPasses) {
  const auto state = begin(1);
  for (int rows = 10, seen = kPrompt + rows; seen <= 400; seen += rows) {
    observe(*state, rows);
    EXPECT_GT(network_.rows, seen - 1 - 32);
  }
  const int before = network_.rows;
  for (int round = 0; round < 128; ++round) observe(*state, 1);
  EXPECT_EQ(network_.rows, before);  // of an answer for which nothing is drafted
}

TEST_F(HeadMemoryTest, SaysWhatIsLeftToRunBeforeATreeCanGrow) {
  const auto state = begin(1);
  EXPECT_EQ(state->waiting_before_newest(), kPrompt - 2) << "one pair less than tokens";
  observe(*state, 10);
  EXPECT_EQ(state->waiting_before_newest(), 0) << "a pass was full";
  observe(*state, 3);
  EXPECT_EQ(state->waiting_before_newest(), 2);
}

TEST_F(HeadMemoryTest, RunsNothingOfATextOfWhichNoDraftsAreWantedInACrowd) {
  for (TokenId i = 0; i < 3; ++i) others_.push_back(begin(2 + i));
  const auto state = begin(1);
  answer(*state, 6);
  const int rows = network_.rows;
  EXPECT_GT(rows, kPrompt);
  EXPECT_LT(rows, kPrompt + 128);
  for (const auto& other : others_) memory_.finish(*other);
  EXPECT_EQ(network_.rows, rows);
  // Nor does it hold back a text whose rows the target has.
  const std::vector<TokenId>& text = texts_.at(others_[0].get());
  EXPECT_EQ(memory_.remembers(text, {}), static_cast<int>(text.size()));
}

TEST_F(HeadMemoryTest, WakesWhenDraftsAreWantedAgain) {
  for (TokenId i = 0; i < 3; ++i) others_.push_back(begin(2 + i));
  answer(*begin(1), 0);
  others_.clear();
  const auto state = begin(5);
  answer(*state, 64);
  memory_.finish(*state);
  EXPECT_EQ(network_.rows, kPrompt + 128 - 1);
}

TEST_F(HeadMemoryTest, SharesNoPagesOfATextWhoseTokensStandForVectors) {
  std::vector<TokenId> text(156);
  std::iota(text.begin(), text.end(), 300);
  const Buffer features = backend_->allocate(155, kWidth);
  const auto observed = [&](std::span<const float> vectors) {
    auto state = memory_.start();
    memory_.observe(*state, {.tokens = text,
                             .first_position = 0,
                             .features = features.view(),
                             .first_has_row = false,
                             .vectors = vectors});
    memory_.finish(*state);
    return state;
  };
  const auto share = [](const HeadState& a, const HeadState& b) {
    const auto of_a = a.cache.pages(), of_b = b.cache.pages();
    return std::ranges::find_first_of(of_a, of_b) != of_a.end();
  };
  const std::vector<float> of_a_caption(6 * kWidth, 1.0F), of_another(6 * kWidth, 2.0F);
  const auto caption = observed(of_a_caption), another = observed(of_another);
  const auto guide = observed({}), its_twin = observed({});
  EXPECT_FALSE(share(*caption, *another));
  EXPECT_FALSE(share(*caption, *guide));
  EXPECT_FALSE(share(*another, *guide));
  EXPECT_TRUE(share(*guide, *its_twin));
}

TEST_F(HeadMemoryTest, RemembersATextForItsOwnerAlone) {
  std::vector<TokenId> text(156);
  std::iota(text.begin(), text.end(), 300);
  const Buffer features = backend_->allocate(155, kWidth);
  const auto leave = [&](const TextOwner& owner) {
    const auto state = memory_.resume({}, owner);
    memory_.observe(
        *state,
        {.tokens = text, .first_position = 0, .features = features.view(), .first_has_row = false});
    memory_.finish(*state);
  };
  const auto pairs_of = [&](const TextOwner& owner) {
    return memory_.resume(std::span(text).first(100), owner)->cache.length();
  };
  leave({.tenant = 1});
  EXPECT_EQ(memory_.remembers(text, {.tenant = 1}), 155);
  EXPECT_EQ(pairs_of({.tenant = 1}), 99);
  leave({.tenant = 2, .reuses = false});
  for (const TextOwner& owner : {TextOwner{.tenant = 2}, TextOwner{.tenant = 1, .reuses = false}}) {
    EXPECT_EQ(memory_.remembers(text, owner), 0) << owner.tenant;
    EXPECT_EQ(pairs_of(owner), 0) << owner.tenant;
  }
}

}  // namespace
}  // namespace talon::head_memory_test
