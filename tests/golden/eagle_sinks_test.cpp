#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "eagle_head_files.h"
#include "eagle_run.h"

namespace talon::eagle_sinks_test {
namespace {

constexpr int kWidth = 64, kHeads = 8, kKvHeads = 4, kHeadDim = 8;
constexpr double kEpsilon = 1e-5, kRopeBase = 10000;
constexpr double kTolerance = 2e-4;

using Values = std::vector<double>;

Values plus(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// The recorded EAGLE-3 head as its paper has it, one pair after the other, in double: it keeps all
/// that a pair needs and is told which pairs each sees.
class PlainHead {
 public:
  PlainHead(int window, int sinks)
      : head_(HeadFiles::read("eagle3_head")),
        target_(HeadFiles::read("target")),
        window_(window),
        sinks_(sinks) {}

  struct Pair {
    Values keys, values;  // of all heads, keys turned
    Values output;        // fed back, and read by the output matrix
  };

  Values fused(std::span<const float> taps) const {
    return times("fc.weight", Values(taps.begin(), taps.end()));
  }
  /// The pair behind `path`. g: fused taps, or the output of the pair before.
  Pair run(std::span<const Pair> path, TokenId token, const Values& g) const {
    Values z = norm("midlayer.input_layernorm.weight", embedding(token));
    const Values feature = norm("midlayer.hidden_norm.weight", g);
    z.insert(z.end(), feature.begin(), feature.end());
    const auto place = static_cast<int>(path.size());
    const Values q = turned(times("midlayer.self_attn.q_proj.weight", z), place);
    std::vector<Pair> pairs(path.begin(), path.end());
    pairs.push_back({turned(times("midlayer.self_attn.k_proj.weight", z), place),
                     times("midlayer.self_attn.v_proj.weight", z),
                     {}});
    const Values h = plus(g, times("midlayer.self_attn.o_proj.weight", attended(q, pairs, place)));
    const Values x = norm("midlayer.post_attention_layernorm.weight", h);
    Values gate = times("midlayer.mlp.gate_proj.weight", x);
    const Values up = times("midlayer.mlp.up_proj.weight", x);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    pairs.back().output = plus(h, times("midlayer.mlp.down_proj.weight", gate));
    return pairs.back();
  }
  /// Of the target's token after a pair, which the head must have.
  double log_p(const Pair& pair, TokenId token) const {
    const Values logits = times("lm_head.weight", norm("norm.weight", pair.output));
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    std::vector<std::int64_t> step(logits.size());
    std::memcpy(step.data(), head_.tensors.at("d2t").bytes.data(),
                step.size() * sizeof(std::int64_t));
    for (std::size_t id = 0; id < logits.size(); ++id) {
      if (static_cast<TokenId>(id) + step[id] == token) return logits[id] - std::log(sum);
    }
    ADD_FAILURE() << "token " << token << " is not in the head's vocabulary";
    return 0;
  }

 private:
  Values times(const std::string& matrix, const Values& x) const {
    const std::vector<float> w = head_.values(matrix);
    Values y(w.size() / x.size());
    for (std::size_t i = 0; i < w.size(); ++i) y[i / x.size()] += w[i] * x[i % x.size()];
    return y;
  }
  Values norm(const std::string& weight, Values x) const {
    double squares = 0;
    for (const double value : x) squares += value * value;
    const std::vector<float> w = head_.values(weight);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + kEpsilon);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= scale * w[i];
    return x;
  }
  Values embedding(TokenId token) const {
    const std::vector<float> table = target_.values("model.embed_tokens.weight");
    const auto row = table.begin() + token * kWidth;
    return {row, row + kWidth};
  }
  static Values turned(Values heads, int place) {
    for (std::size_t head = 0; head < heads.size(); head += kHeadDim) {
      for (int i = 0; i < kHeadDim / 2; ++i) {
        const double angle = place * std::pow(kRopeBase, -2.0 * i / kHeadDim);
        double& low = heads[head + static_cast<std::size_t>(i)];
        double& high = heads[head + static_cast<std::size_t>(i + kHeadDim / 2)];
        const double turned_low = low * std::cos(angle) - high * std::sin(angle);
        high = high * std::cos(angle) + low * std::sin(angle);
        low = turned_low;
      }
    }
    return heads;
  }
  /// What the pair at `place` takes from those it sees: the first and the newest.
  Values attended(const Values& q, std::span<const Pair> pairs, int place) const {
    Values out(kWidth);
    for (int head = 0; head < kHeads; ++head) {
      const auto own = static_cast<std::size_t>(head * kHeadDim);
      const auto shared = static_cast<std::size_t>(head * kKvHeads / kHeads * kHeadDim);
      double sum = 0;
      for (int seen = 0; seen <= place; ++seen) {
        if (seen >= sinks_ && seen + window_ <= place) continue;
        const Pair& pair = pairs[static_cast<std::size_t>(seen)];
        double score = 0;
        for (std::size_t i = 0; i < kHeadDim; ++i) score += q[own + i] * pair.keys[shared + i];
        const double weight = std::exp(score / std::sqrt(kHeadDim));
        sum += weight;
        for (std::size_t i = 0; i < kHeadDim; ++i) out[own + i] += weight * pair.values[shared + i];
      }
      for (std::size_t i = 0; i < kHeadDim; ++i) out[own + i] /= sum;
    }
    return out;
  }

  HeadFiles head_, target_;
  int window_, sinks_;
};

std::vector<TokenId> story(int length) {
  const std::vector<TokenId> start = {1,   403, 407, 261, 378, 432, 383, 286,
                                      261, 376, 298, 315, 421, 395, 317, 426};
  std::vector<TokenId> tokens;
  for (int i = 0; i < length; ++i) tokens.push_back(start[static_cast<std::size_t>(i) % 16]);
  return tokens;
}

std::unique_ptr<Drafter> with_window(int window, int sinks) {
  return eagle_target().make_drafter(
      fmt::format("eagle3:weights=f32,topk=3,levels=5,nodes=30,window={},sinks={}", window, sinks),
      "eagle3_head");
}

/// A drafted tree and all that the plain head says of its nodes.
void expect_as_plain(int length, int window, int sinks) {
  SCOPED_TRACE(fmt::format("{} tokens, window {}, {} sinks", length, window, sinks));
  const auto drafter = with_window(window, sinks);
  const FeaturedText text = featured(story(length), drafter->taps());
  const auto state = drafter->start();
  observe(*drafter, *state, text, 0, length);
  const DraftTree tree = propose(*drafter, *state, text.tokens.back());
  ASSERT_GT(tree.draft_nodes(), 20);
  ASSERT_EQ(tree.depth(tree.size() - 1), 5);

  const PlainHead head(window, sinks);
  const View features = text.features.view();
  std::vector<float> taps(static_cast<std::size_t>(features.rows * features.cols));
  eagle_target().backend->download(features, taps);
  const auto cols = static_cast<std::size_t>(features.cols);
  std::vector<PlainHead::Pair> committed;
  for (std::size_t i = 0; i + 1 < text.tokens.size(); ++i) {
    committed.push_back(head.run(committed, text.tokens[i + 1],
                                 head.fused(std::span(taps).subspan(i * cols, cols))));
  }
  for (NodeId node = 1; node < tree.size(); ++node) {
    std::vector<PlainHead::Pair> path = committed;
    double log_p = 0;
    for (const NodeId step : tree.path(node)) {
      if (step == 0) continue;
      log_p += head.log_p(path.back(), tree[step].token);
      path.push_back(head.run(path, tree[step].token, path.back().output));
    }
    EXPECT_NEAR(tree[node].log_p, log_p, kTolerance) << "node " << node;
  }
}

TEST(EagleSinks, AreSeenBesideTheWindowAsByAHeadThatIsComputedPlainly) {
  expect_as_plain(40, 7, 3);
  expect_as_plain(40, 7, 0);
  expect_as_plain(90, 20, 5);
  expect_as_plain(150, 9, 70);  // more than a page of them
}

/// Shorter than a draft is deep, or with so little text before that drafted pairs would be sinks.
TEST(EagleSinks, StandBesideWindowsAndTextsShorterThanADraft) {
  expect_as_plain(40, 2, 3);
  expect_as_plain(40, 1, 1);
  expect_as_plain(3, 1, 4);
  expect_as_plain(3, 2, 1);
  expect_as_plain(5, 100, 4);
}

TEST(EagleSinks, AreNotListedTwiceWhereTheWindowReachesThem) {
  for (const int length : {9, 10, 11, 12, 13, 14}) expect_as_plain(length, 7, 4);
}

TEST(EagleSinks, WithoutAWindowOrOfTheWholeTextChangeNothing) {
  const auto tree_of = [](const std::string& options) {
    const auto drafter = eagle_target().make_drafter("eagle3:" + options, "eagle3_head");
    const FeaturedText text = featured(story(40), drafter->taps());
    const auto state = drafter->start();
    observe(*drafter, *state, text, 0, 40);
    const DraftTree tree = propose(*drafter, *state, text.tokens.back());
    return std::pair(tree.tokens(), tree.log_ps());
  };
  const auto all = tree_of("window=0");
  EXPECT_EQ(tree_of("window=0,sinks=4"), all);
  EXPECT_EQ(tree_of("window=30,sinks=20"), all);
  EXPECT_NE(tree_of("window=12,sinks=4"), all);
  EXPECT_NE(tree_of("window=12,sinks=4"), tree_of("window=12"));
}

}  // namespace
}  // namespace talon::eagle_sinks_test
