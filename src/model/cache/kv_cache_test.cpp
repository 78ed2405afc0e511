#include "model/cache/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>
#include <random>
#include <set>

#include "backend/reference/reference.h"
#include "core/error.h"
#include "model/row_layout.h"

namespace {
thread_local bool no_memory = false;
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

namespace talon {
namespace {

using Tokens = std::vector<TokenId>;

/// A "model" whose value at a position is a hash of all tokens up to it, and whose attention is the
/// mean of the visible values: a wrong, stale or missing row changes the answer.
class HashModel {
 public:
  explicit HashModel(int pages, KvType type = KvType::f32) : cache(*backend, shape(pages, type)) {
    rope = backend->allocate(kPositions, 2);
    std::vector<float> no_rotation;
    for (int i = 0; i < kPositions; ++i) no_rotation.insert(no_rotation.end(), {1, 0});
    backend->upload(no_rotation, rope.view());
  }

  static KvShape shape(int pages, KvType type) { return {1, 1, 2, pages, type}; }

  /// Runs rows in flight and expects every row to see exactly its own past.
  void forward(KvSequence& sequence, const Tokens& tokens,
               const std::vector<NodeId>& parents = {}) {
    const int rows = static_cast<int>(tokens.size());
    const SequenceRows part{&sequence, tokens, parents, SequenceRows::Logits::none};
    AttentionLayout layout;
    lay_out_rows({&part, 1}, layout);
    std::vector<float> values, expected;
    for (int row = 0; row < rows; ++row) {
      Tokens past;
      const auto parent_of = [&](int of) {
        return parents.empty() ? of - 1 : parents[static_cast<std::size_t>(of)];
      };
      for (int r = row; r >= 0; r = parent_of(r))
        past.push_back(tokens[static_cast<std::size_t>(r)]);
      past.insert(past.end(), sequence.tokens().rbegin(), sequence.tokens().rend());
      std::reverse(past.begin(), past.end());
      const std::vector<float> seen = hashes(past);
      values.insert(values.end(), {seen.back(), 1});
      expected.push_back(mean(seen));
    }
    const auto q = backend->allocate(rows, 2), k = backend->allocate(rows, 2);
    const auto v = backend->allocate(rows, 2), out = backend->allocate(rows, 2);
    backend->upload(values, v.view());
    const auto prepared = backend->prepare(layout);
    backend->attention({.q = q.view(),
                        .k = k.view(),
                        .v = v.view(),
                        .out = out.view(),
                        .cache = &cache.store(),
                        .layer = 0,
                        .layout = prepared.get(),
                        .rope = rope.view(),
                        .q_norm = {},
                        .k_norm = {},
                        .scale = 1});
    std::vector<float> found(static_cast<std::size_t>(rows) * 2);
    backend->download(out.view(), found);
    for (std::size_t row = 0; row < expected.size(); ++row) {
      ASSERT_FLOAT_EQ(found[2 * row], expected[row]) << "row " << row;
      ASSERT_FLOAT_EQ(found[2 * row + 1], 1);
    }
  }

  /// Reserves, runs and keeps a chain. False when there is no room.
  bool append(KvSequence& sequence, const Tokens& tokens) {
    if (!sequence.reserve(static_cast<int>(tokens.size()))) return false;
    forward(sequence, tokens);
    std::vector<NodeId> path(tokens.size());
    for (std::size_t i = 0; i < path.size(); ++i) path[i] = static_cast<NodeId>(i);
    sequence.keep(path, tokens);
    return true;
  }

  /// A sequence over `prompt` that computes what the cache does not remember; the number it did
  /// remember.
  std::pair<KvSequence, int> run(const Tokens& prompt) {
    KvSequence sequence = cache.start(prompt);
    const int reused = sequence.length();
    EXPECT_TRUE(append(sequence, {prompt.begin() + reused, prompt.end()}));
    return {std::move(sequence), reused};
  }

  static std::vector<float> hashes(const Tokens& tokens) {
    std::vector<float> values;
    std::uint32_t hash = 17;
    for (const TokenId token : tokens) {
      hash = (hash ^ static_cast<std::uint32_t>(token + 1)) * 2654435761U;
      hash ^= hash >> 15U;
      values.push_back(static_cast<float>(hash >> 16U) / 65536.0F);
    }
    return values;
  }
  static float mean(const std::vector<float>& values) {
    double sum = 0;
    for (const float value : values) sum += value;
    return static_cast<float>(sum / static_cast<double>(values.size()));
  }

  static constexpr int kPositions = 4096;
  std::unique_ptr<Backend> backend = make_reference_backend(1);
  KvCache cache;
  Buffer rope;
};

Tokens numbered(int count, int first = 0) {
  Tokens tokens(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) tokens[static_cast<std::size_t>(i)] = first + i;
  return tokens;
}

TEST(KvCache, BudgetIsHardAndCountsWholePages) {
  const auto backend = make_reference_backend(1);
  const KvShape shape = HashModel::shape(1, KvType::f16);
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

/// Random work of several sequences over prompts that share beginnings, in a cache too small for
/// all of it.
class RandomWork {
 public:
  explicit RandomWork(unsigned seed) : random_(seed), model_(kPages) {}

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
    ASSERT_EQ(model_.cache.free_pages(), kPages - static_cast<int>(used.size()));
  }

  void finish() {
    running_.clear();
    EXPECT_EQ(model_.cache.free_pages(), kPages);
  }
  int reused = 0, refused = 0;

 private:
  static constexpr int kPages = 9;
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
  HashModel model_;
  std::vector<Running> running_;
};

TEST(KvCache, RandomWorkOfManySequencesNeverSeesAWrongRow) {
  int reused = 0, refused = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    RandomWork work(seed);
    for (int i = 0; i < 300; ++i) {
      work.step();
      work.expect_consistent();
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << " step " << i;
    }
    reused += work.reused;
    refused += work.refused;
    work.finish();
  }
  EXPECT_GT(reused, 10000);  // the test would be empty without them
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace talon
