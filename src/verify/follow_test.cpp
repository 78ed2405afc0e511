#include <gtest/gtest.h>

#include <map>

#include "core/error.h"
#include "verify/test_input.h"

namespace talon::follow_test {
namespace {

constexpr int kVocabulary = 12;

/// A target whose row is a function of the tokens before it, as a model's is.
std::vector<float> row_after(std::span<const TokenId> committed, std::span<const TokenId> path) {
  std::uint32_t state = 17;
  for (const TokenId token : committed) state = state * 31 + static_cast<std::uint32_t>(token);
  for (const TokenId token : path) state = state * 31 + static_cast<std::uint32_t>(token);
  std::vector<float> row;
  for (int i = 0; i < kVocabulary; ++i) {
    state = state * 1664525u + 1013904223u;
    row.push_back(static_cast<float>(state >> 20) / 1000.0f);
  }
  return row;
}

std::vector<TokenId> path_tokens(const DraftTree& tree, NodeId node) {
  std::vector<TokenId> tokens;
  for (const NodeId id : tree.path(node)) {
    if (id != 0) tokens.push_back(tree[id].token);
  }
  return tokens;
}

struct Setting {
  SamplerOptions options;
  std::vector<TokenId> prompt = {3, 1, 4};
};

/// Tokens of one verify call.
std::vector<TokenId> verified(const Setting& setting, std::span<const TokenId> committed,
                              const DraftTree& tree) {
  Sampler sampler(setting.options, kVocabulary);
  const PositionRandom random(5, 0);
  TestRows rows([&](NodeId node) { return row_after(committed, path_tokens(tree, node)); });
  VerifyInput input;
  input.tree = &tree;
  input.rows = &rows;
  input.committed = committed;
  input.prompt_length = static_cast<int>(setting.prompt.size());
  input.sampler = &sampler;
  input.random = &random;
  const VerifyResult result = make_verifier("follow")->verify(input);
  std::vector<TokenId> tokens = path_tokens(tree, result.path.back());
  EXPECT_EQ(result.path, tree.path(result.path.back()));
  tokens.push_back(result.next);
  return tokens;
}

std::vector<TokenId> plain(const Setting& setting, int count) {
  std::vector<TokenId> tokens = setting.prompt;
  while (count-- > 0) {
    const DraftTree root(tokens.back());
    tokens.push_back(verified(setting, tokens, root).front());
  }
  return tokens;
}

std::vector<Setting> settings() {
  std::vector<Setting> all(4);
  all[1].options.temperature = 0.7;
  all[2].options = {
      .temperature = 1.2, .top_p = 0.9, .repetition_penalty = 1.3, .frequency_penalty = 0.4};
  all[3].options.repetition_penalty = 1.5;
  return all;
}

TEST(FollowRule, SameSeedGivesSameTextWithAndWithoutDrafts) {
  for (const Setting& setting : settings()) {
    const std::vector<TokenId> expected = plain(setting, 60);
    std::vector<TokenId> tokens = setting.prompt;
    int trees_with_hits = 0;
    while (tokens.size() < 50) {
      // A tree that holds the next few right tokens among wrong ones.
      DraftTree tree(tokens.back());
      NodeId right = 0;
      for (std::size_t depth = 0; depth < tokens.size() % 5; ++depth) {
        const TokenId token = expected[tokens.size() + depth];
        tree.add(right, (token + 1) % kVocabulary, -1);
        tree.add(right, (token + 5) % kVocabulary, -1);
        right = tree.add(right, token, -1);
      }
      const auto round = verified(setting, tokens, tree);
      EXPECT_EQ(round.size(), tokens.size() % 5 + 1);
      trees_with_hits += round.size() > 1;
      tokens.insert(tokens.end(), round.begin(), round.end());
    }
    EXPECT_GT(trees_with_hits, 5);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), expected.begin()));
  }
}

TEST(FollowRule, StopsAtTheFirstTokenThatWasNotDrafted) {
  const Setting setting;
  const std::vector<TokenId> expected = plain(setting, 3);
  DraftTree tree(setting.prompt.back());
  tree.add(0, (expected[3] + 1) % kVocabulary, -1);
  EXPECT_EQ(verified(setting, setting.prompt, tree), (std::vector<TokenId>{expected[3]}));
}

TEST(Verifiers, TheTableMakesEachRuleByItsName) {
  for (const VerifierEntry& entry : verifiers())
    EXPECT_EQ(make_verifier(entry.name)->name(), entry.name);
  EXPECT_TRUE(make_verifier("follow")->lossless());
  try {
    make_verifier("lead");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with("verify: expected one of follow, "))
        << error.what();
  }
}

}  // namespace
}  // namespace talon::follow_test
