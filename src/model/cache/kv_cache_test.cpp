#include "model/cache/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>
#include <random>
#include <set>

#include "core/error.h"
#include "model/cache/hash_model.h"

namespace {
// Aligned, since mold 1.10 may leave a lone byte of thread-local memory on a page of its own, which
// is not mapped and so cannot be protected when the program starts.
alignas(8) thread_local bool no_memory = false;
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return no_memory ? nullptr : std::malloc(size);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* memory = operator new(size, std::nothrow);
  if (!memory) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace talon::kv_cache_test {
namespace {

using test::HashLayers;
using test::HashModel;
using test::numbered;
using test::Tokens;

TEST(KvCache, BudgetIsHardAndCountsWholePages) {
  const auto backend = make_reference_backend(1);
  const KvShape shape = HashModel::shape({.pages = 1}, KvType::f16);
  const std::size_t page = kv_page_bytes(shape);
  EXPECT_EQ(page, 2U * 64 * 2 * 2);
  EXPECT_THROW(within_budget(shape, page - 1), Error);
  KvCache cache(*backend, within_budget(shape, 3 * page + page / 2));
  EXPECT_EQ(cache.total_pages(), 3);
  EXPECT_EQ(cache.bytes(), 3 * page);
  KvSequence sequence = cache.start({});
  EXPECT_FALSE(sequence.reserve(3 * 64 + 1));
  EXPECT_TRUE(sequence.pages().empty());
  EXPECT_TRUE(sequence.reserve(3 * 64));
  EXPECT_EQ(cache.free_pages(), 0);
}

TEST(KvCache, LaterPromptReusesTheFullPagesAndTheBeginningOfTheNext) {
  HashModel model(8);
  const Tokens prompt = numbered(200);
  {
    auto [first, reused] = model.run(prompt);
    EXPECT_EQ(reused, 0);
  }
  EXPECT_EQ(model.cache.free_pages(), 8);
  auto [again, reused] = model.run(prompt);
  EXPECT_EQ(reused, 199);  // the last token is always computed
  Tokens other = prompt;
  other[150] = 9999;
  auto [different, shared] = model.run(other);
  EXPECT_EQ(shared, 150);
  EXPECT_EQ(different.pages()[0], again.pages()[0]);
  EXPECT_EQ(different.pages()[1], again.pages()[1]);
  EXPECT_NE(different.pages()[2], again.pages()[2]);
}

TEST(KvCache, AConversationContinuesWhereItEnded) {
  HashModel model(8);
  Tokens conversation = numbered(100);
  for (int turn = 0; turn < 4; ++turn) {
    auto [sequence, reused] = model.run(conversation);
    EXPECT_EQ(reused, turn == 0 ? 0 : static_cast<int>(conversation.size()) - 30);
    conversation.insert(conversation.end(), 30, 500 + turn);
  }
}

TEST(KvCache, WithoutReuseNothingIsTakenFromTheMemory) {
  HashModel model(8);
  const Tokens prompt = numbered(130);
  auto [first, reused] = model.run(prompt);
  KvSequence cold = model.cache.start(prompt, /*reuse=*/false);
  EXPECT_EQ(cold.length(), 0);
  EXPECT_TRUE(model.append(cold, prompt));
  EXPECT_EQ(cold.pages()[1], first.pages()[1]);  // equal full pages become one
}

TEST(KvCache, RememberedPagesGiveWayOldestFirst) {
  HashModel model(4);
  const Tokens old = numbered(65), recent = numbered(65, 1000);
  model.run(old);
  model.run(recent);
  KvSequence large = model.cache.start({});
  EXPECT_TRUE(large.reserve(2 * 64));
  EXPECT_GE(model.cache.start(recent).length(), 64);
  EXPECT_EQ(model.cache.start(old).length(), 0);
}

TEST(KvCache, ATruncatedSequenceDoesNotWriteIntoASharedPage) {
  HashModel model(8);
  const Tokens prompt = numbered(128);
  auto [first, none] = model.run(prompt);
  KvSequence second = model.cache.start(numbered(129));
  EXPECT_EQ(second.length(), 128);
  second.truncate(100);
  EXPECT_THROW(second.slot(0), Bug);
  EXPECT_TRUE(model.append(second, numbered(40, 700)));
  EXPECT_TRUE(model.append(first, numbered(10, 128)));  // sees its own rows still
  first.truncate(70);
  EXPECT_TRUE(model.append(first, numbered(3, 800)));
  EXPECT_EQ(second.length(), 140);
}

TEST(KvCache, ATreePathIsKeptWhereverItsRowsLie) {
  HashModel model(8);
  auto [sequence, none] = model.run(numbered(62));
  //  0 -> 1 -> 3 -> 5 -> 6 and 0 -> 2 -> 4
  ASSERT_TRUE(sequence.reserve(7));
  model.forward(sequence, {10, 11, 12, 13, 14, 15, 16}, {-1, 0, 0, 1, 2, 3, 5});
  sequence.keep(std::vector<NodeId>{0, 1, 3, 5, 6}, Tokens{10, 11, 13, 15, 16});
  EXPECT_EQ(sequence.length(), 67);
  EXPECT_TRUE(model.append(sequence, {20, 21}));  // expects the kept rows to be seen
  ASSERT_TRUE(sequence.reserve(3));
  model.forward(sequence, {30, 31, 32}, {-1, -1, 1});
  sequence.keep(std::vector<NodeId>{1, 2}, Tokens{31, 32});
  EXPECT_TRUE(model.append(sequence, {40}));
}

TEST(KvCache, SequencesMoveAndGivePagesBack) {
  HashModel model(4);
  auto [sequence, none] = model.run(numbered(100));
  KvSequence moved = std::move(sequence);
  EXPECT_EQ(moved.length(), 100);
  EXPECT_EQ(model.cache.free_pages(), 2);
  moved = model.cache.start({});
  EXPECT_EQ(model.cache.free_pages(), 4);
}

TEST(KvCache, ASequenceEndsAndIsRememberedWithoutMemoryToAllocate) {
  HashModel model(8);
  const Tokens prompt = numbered(100);
  std::optional<KvSequence> sequence(model.run(prompt).first);
  no_memory = true;
  sequence.reset();
  no_memory = false;
  EXPECT_EQ(model.cache.free_pages(), 8);
  EXPECT_EQ(model.cache.start(prompt).length(), 99);
}

TEST(KvCache, ATenantFindsItsOwnTextsOnly) {
  HashModel model(8);
  const Tokens prompt = numbered(130);
  const TextRoot ours{.tenant = 1}, theirs{.tenant = 2};
  {
    KvSequence sequence = model.cache.start(prompt, true, ours);
    EXPECT_TRUE(model.append(sequence, prompt));
  }
  EXPECT_EQ(model.cache.start(prompt, true, theirs).length(), 0);
  EXPECT_EQ(model.cache.start(prompt).length(), 0);
  KvSequence again = model.cache.start(prompt, true, ours);
  EXPECT_EQ(again.length(), 129);
  again = model.cache.start(prompt, true, theirs);
  EXPECT_TRUE(model.append(again, prompt));
  EXPECT_NE(again.pages()[0], model.cache.start(prompt, true, ours).pages()[0]);
}

TEST(KvCache, AGuideThatEndsLeavesWhatWasRunToLaterTextsAndItsPagesToOthers) {
  HashModel model(8);
  const Tokens prompt = numbered(70), of_guide = numbered(70, 500), more = numbered(60, 900);
  KvSequence sequence = model.cache.start({}, false);
  sequence.pair(model.cache.start({}, false), of_guide);
  ASSERT_TRUE(sequence.reserve(70));
  model.forward(sequence, prompt);
  model.forward(*sequence.guide(), of_guide);
  sequence.keep(numbered(70), prompt);
  EXPECT_EQ(model.cache.free_pages(), 4);
  sequence.unpair();
  EXPECT_EQ(sequence.guide(), nullptr);
  EXPECT_EQ(model.cache.free_pages(), 6);
  EXPECT_TRUE(model.append(sequence, more));
  EXPECT_EQ(model.cache.free_pages(), 5) << "a page more of its own";
  sequence.truncate(100);
  EXPECT_TRUE(model.append(sequence, {7}));
  Tokens longer = of_guide;
  longer.insert(longer.end(), more.begin(), more.end());
  EXPECT_EQ(model.run(longer).second, 70) << "no row that was not run";
}

/// Random work of several sequences over prompts that share beginnings, in a cache too small for
/// all of it.
class RandomWork {
 public:
  RandomWork(unsigned seed, const HashLayers& layers)
      : random_(seed), layers_(layers), model_(layers) {}

  void step() {
    const int choice = pick(10);
    if (running_.empty() || (choice == 0 && running_.size() < 4)) return start();
    const auto at = static_cast<std::size_t>(pick(static_cast<int>(running_.size())));
    Running& r = running_[at];
    if (choice <= 2) {
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (choice == 3) {
      r.tokens.resize(static_cast<std::size_t>(pick(static_cast<int>(r.tokens.size()) + 1)));
      r.sequence.truncate(static_cast<int>(r.tokens.size()));
      lost += static_cast<int>(r.tokens.size()) - r.sequence.length();
      r.tokens.resize(static_cast<std::size_t>(r.sequence.length()));
    } else {
      grow(r, choice <= 5);
    }
  }

  void expect_consistent() {
    std::set<PageId> used;
    for (const Running& r : running_) {
      ASSERT_TRUE(std::equal(r.tokens.begin(), r.tokens.end(), r.sequence.tokens().begin(),
                             r.sequence.tokens().end()));
      used.insert(r.sequence.pages().begin(), r.sequence.pages().end());
    }
    const int far = layers_.pages - static_cast<int>(used.size());
    if (layers_.near_pages < layers_.pages && layers_.reach > 0) {
      ASSERT_LE(model_.cache.free_pages(), std::min(far, layers_.near_pages));
    } else {
      ASSERT_EQ(model_.cache.free_pages(), far);
    }
  }

  void finish() {
    running_.clear();
    const int near = layers_.reach > 0 ? layers_.near_pages : layers_.pages;
    EXPECT_EQ(model_.cache.free_pages(), std::min(layers_.pages, near));
  }
  int reused = 0, refused = 0, lost = 0;

 private:
  struct Running {
    KvSequence sequence;
    Tokens tokens;
  };

  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  /// Prompts of one family differ only from some position on.
  Tokens prompt() {
    Tokens tokens = numbered(1 + pick(250));
    const int family = pick(3);
    for (std::size_t i = static_cast<std::size_t>(family) * 70; i < tokens.size(); ++i) {
      tokens[i] += 1000 * family;
    }
    return tokens;
  }

  void start() {
    const Tokens tokens = prompt();
    KvSequence sequence = model_.cache.start(tokens);
    const auto known = static_cast<std::size_t>(sequence.length());
    ASSERT_LT(known, tokens.size());
    reused += static_cast<int>(known);
    if (!append(sequence, {tokens.begin() + static_cast<std::ptrdiff_t>(known), tokens.end()}))
      return;
    running_.push_back({std::move(sequence), tokens});
  }

  bool append(KvSequence& sequence, const Tokens& tokens) {
    const int free = model_.cache.free_pages();
    const int held = static_cast<int>(sequence.pages().size());
    const int needed = (sequence.length() + static_cast<int>(tokens.size()) + 63) / 64 - held;
    const bool done = model_.append(sequence, tokens);
    if (needed > free) {
      EXPECT_FALSE(done);
    } else if (needed < free) {  // at equality a shared tail may need one more
      EXPECT_TRUE(done);
    }
    if (!done) {
      ++refused;
      EXPECT_EQ(model_.cache.free_pages(), free);
    }
    return done;
  }

  void grow(Running& r, bool tree) {
    Tokens tokens;
    const int rows = 1 + pick(tree ? 20 : 90);
    for (int i = 0; i < rows; ++i)
      tokens.push_back(static_cast<int>(r.tokens.size()) + i + pick(2));
    if (!tree) {
      if (append(r.sequence, tokens)) r.tokens.insert(r.tokens.end(), tokens.begin(), tokens.end());
      return;
    }
    std::vector<NodeId> parents, path;
    for (int i = 0; i < rows; ++i) parents.push_back(pick(i + 1) - 1);
    if (!r.sequence.reserve(rows)) return;
    model_.forward(r.sequence, tokens, parents);
    for (NodeId node = pick(rows + 1) - 1; node >= 0;
         node = parents[static_cast<std::size_t>(node)]) {
      path.insert(path.begin(), node);
    }
    Tokens kept;
    for (const NodeId node : path) kept.push_back(tokens[static_cast<std::size_t>(node)]);
    r.sequence.keep(path, kept);
    r.tokens.insert(r.tokens.end(), kept.begin(), kept.end());
  }

  std::mt19937 random_;
  HashLayers layers_;
  HashModel model_;
  std::vector<Running> running_;
};

class KvCacheOfLayers : public testing::TestWithParam<HashLayers> {};

TEST_P(KvCacheOfLayers, RandomWorkOfManySequencesNeverSeesAWrongRow) {
  int reused = 0, refused = 0, lost = 0;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    RandomWork work(seed, GetParam());
    for (int i = 0; i < 300; ++i) {
      work.step();
      work.expect_consistent();
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << " step " << i;
    }
    reused += work.reused;
    refused += work.refused;
    lost += work.lost;
    work.finish();
  }
  EXPECT_GT(reused, 4000);  // the test would be empty without them
  EXPECT_GT(refused, 40);
  const bool may_lose = GetParam().reach > 0;
  EXPECT_EQ(lost > 0, may_lose);
}

INSTANTIATE_TEST_SUITE_P(
    Layers, KvCacheOfLayers,
    testing::Values(HashLayers{.pages = 9}, HashLayers{.pages = 9, .reach = 50, .near_pages = 9},
                    HashLayers{.pages = 9, .reach = 1, .near_pages = 7},
                    HashLayers{.pages = 9, .reach = 130, .near_pages = 8},
                    HashLayers{.pages = 9, .far = false, .reach = 70, .near_pages = 9}),
    [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace talon::kv_cache_test
