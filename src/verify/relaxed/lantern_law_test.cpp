#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "verify/exact_enumeration.h"
#include "verify/relaxed/lantern_rule.h"

// How far LANTERN's rule moves the law of a text, by enumeration.
namespace talon::lantern_law_test {
namespace {

constexpr int kCodes = 4;
constexpr int kSituations = 40;

/// All ways that drafts and decisions can fall, one after the other, with their chances.
class Ways {
 public:
  bool accept(NodeId, double probability) { return choose({probability, 1 - probability}) == 0; }
  TokenId draw(NodeId, const Law<double>& law) { return draw(law); }
  TokenId draw(const Law<double>& law) {
    std::vector<double> weights;
    for (const auto& entry : law.entries) weights.push_back(entry.weight);
    return law.entries[choose(std::move(weights))].token;
  }

  double probability() const { return probability_; }
  bool next() {
    made_ = 0;
    probability_ = 1;
    while (!choices_.empty()) {
      Choice& last = choices_.back();
      if (++last.taken < last.weights.size()) return true;
      choices_.pop_back();
    }
    return false;
  }

 private:
  struct Choice {
    std::size_t taken;
    std::vector<double> weights;  // of sum 1
  };
  std::size_t choose(std::vector<double> weights) {
    if (made_ == choices_.size()) choices_.push_back({0, std::move(weights)});
    const Choice& choice = choices_[made_++];
    probability_ *= choice.weights[choice.taken];
    return choice.taken;
  }

  std::vector<Choice> choices_;
  std::size_t made_ = 0;
  double probability_ = 1;
};

Law<double> random_law(std::mt19937& random) {
  std::normal_distribution<double> normal(0, 1);
  Law<double> law;
  for (TokenId token = 0; token < kCodes; ++token)
    law.entries.push_back({token, std::exp(normal(random))});
  law.divide_by(law.total());
  return law;
}

/// Codes in a plane, and a law of the next one after each text of at most two.
struct Situation {
  explicit Situation(unsigned seed) : random(seed), table(codes(), kCodes - 1, 0) {
    std::vector<std::string> texts = {""};
    for (std::size_t i = 0; i < 1 + kCodes; ++i) {
      for (char token = '0'; token < '0' + kCodes; ++token) texts.push_back(texts[i] + token);
    }
    for (const std::string& text : texts) {
      targets[text] = random_law(random);
      drafts[text] = random_law(random);
    }
  }
  CodeVectors codes() {
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> rows(2 * kCodes);
    for (float& value : rows) value = uniform(random);
    return {rows, 2, /*unit=*/false};
  }
  LanternSettings settings() {
    std::uniform_real_distribution<double> uniform(0, 1);
    LanternSettings settings{.table = &table};
    settings.neighbours = 1 + static_cast<int>(random() % (kCodes - 1));
    settings.multiplicative = random() % 2 == 0;
    settings.bound = settings.multiplicative ? 4 * uniform(random) : uniform(random) / 2;
    return settings;
  }

  std::mt19937 random;
  NeighbourTable table;
  Conditionals<double> targets, drafts;
};

/// Two levels of so many children each, drawn without replacement or the first of all tokens.
TableTree<double> tree_of(const Situation& situation, const std::vector<int>& children, bool drawn,
                          Ways& ways) {
  TableTree<double> tree(situation.targets, situation.drafts);
  const auto grow = [&](NodeId node, int count) {
    std::vector<TokenId> tokens;
    if (drawn) {
      tokens = draw_without_replacement(situation.drafts.at(tree.prefix(node)), count,
                                        [&](const Law<double>& left) { return ways.draw(left); });
    } else {
      for (TokenId token = 0; token < count; ++token) tokens.push_back(token);
    }
    return tree.add(node, tokens, drawn);
  };
  const NodeId first = grow(0, children[0]);
  for (int child = 0; child < children[0]; ++child) grow(first + child, children[1]);
  return tree;
}

struct Found {
  double distance = 0;    // total variation between the laws of the first two tokens
  double distortion = 0;  // the mean of what is metered
};

Found found(const Situation& situation, const LanternSettings& settings,
            const std::vector<int>& children, bool drawn) {
  Found result;
  std::map<std::string, double> law;
  const auto letter = [](TokenId token) { return static_cast<char>('0' + token); };
  Ways ways;
  do {
    TableTree<double> tree = tree_of(situation, children, drawn, ways);
    const VerifyResult verdict = LanternWalk(tree, ways, settings).run();
    std::string text = tree.prefix(verdict.path.back()) + letter(verdict.next);
    result.distortion += ways.probability() * verdict.distortion;
    if (text.size() == 1) {  // the next one is drawn as it should be
      for (const auto& [token, p] : situation.targets.at(text).entries)
        law[text + letter(token)] += ways.probability() * p;
    } else {
      law[text.substr(0, 2)] += ways.probability();
    }
  } while (ways.next());
  double sum = 0;
  for (const auto& [text, weight] : law) sum += weight;
  EXPECT_NEAR(sum, 1, 1e-9);
  for (const auto& [first, p] : situation.targets.at("").entries) {
    const std::string begin(1, letter(first));
    for (const auto& [second, after] : situation.targets.at(begin).entries)
      result.distance += std::abs(law[begin + letter(second)] - p * after) / 2;
  }
  return result;
}

TEST(LanternLaw, IsNoFartherFromTheTargetsThanIsMetered) {
  double farthest = 0;
  for (unsigned seed = 0; seed < kSituations; ++seed) {
    Situation situation(seed);
    const LanternSettings settings = situation.settings();
    for (const bool drawn : {false, true}) {
      for (const std::vector<int>& children :
           {std::vector{1, 1}, std::vector{2, 1}, std::vector{3, 0}}) {
        const Found of = found(situation, settings, children, drawn);
        EXPECT_GE(of.distortion, of.distance - 1e-9) << "situation " << seed << ", " << children[0]
                                                     << " children" << (drawn ? ", drawn" : "");
        farthest = std::max(farthest, of.distance);
      }
    }
  }
  EXPECT_GT(farthest, 0.2);
}

TEST(LanternLaw, OfOneFixedChildIsAsFarAsIsMetered) {
  for (unsigned seed = 0; seed < kSituations; ++seed) {
    Situation situation(seed);
    const LanternSettings settings = situation.settings();
    const Found of = found(situation, settings, {1, 0}, /*drawn=*/false);
    EXPECT_NEAR(of.distortion, of.distance, 1e-9) << seed;
  }
}

TEST(LanternLaw, WithoutATableIsTheTargets) {
  Situation situation(1);
  for (const bool drawn : {false, true}) {
    const Found of = found(situation, {}, {2, 1}, drawn);
    EXPECT_NEAR(of.distance, 0, 1e-9);
    EXPECT_EQ(of.distortion, 0);
  }
}

}  // namespace
}  // namespace talon::lantern_law_test
