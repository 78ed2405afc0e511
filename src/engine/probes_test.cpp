#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backend/reference/reference.h"
#include "backend/wrap/forwarding.h"
#include "draft/merged.h"
#include "draft/registry.h"
#include "engine/engine.h"
#include "engine/test_model.h"

namespace talon::probes_test {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;

constexpr int kWindow = 8;

TestModel& small_model() {
  static TestModel model(TALON_TEST_DATA "/golden/stories260k/target", make_reference_backend(1));
  return model;
}

/// Jacobi decoding: proposes what the last check drew at the places ahead, and fills its window
/// with probes, so that the next check draws there, too. Compares all that it sees with the text.
class JacobiDrafter : public Drafter {
 public:
  struct State : DraftState {
    std::vector<TokenId> ahead;  // for the places after the newest token
    DraftTree tree{0};           // of the last check; empty draws: none
    std::vector<TokenId> drawn;
  };
  DrafterTraits traits() const override { return {.sees_draws = true}; }
  std::unique_ptr<DraftState> start() override { return std::make_unique<State>(); }

  void saw(DraftState& draft_state, const DraftTree& tree, const TokenAfter& drawn) override {
    auto& state = static_cast<State&>(draft_state);
    state.tree = tree;
    state.drawn.clear();
    for (NodeId node = 0; node < tree.size(); ++node) state.drawn.push_back(drawn(node));
    state.ahead = state.drawn;  // the window is a chain: node i is i ahead
    for (const DraftTree::Node& node : tree.nodes) probes += node.kind == NodeKind::probe ? 1 : 0;
  }

  void observe(DraftState& draft_state, const CommittedTokens& committed) override {
    auto& state = static_cast<State&>(draft_state);
    NodeId node = 0;
    for (const TokenId token : committed.tokens) {
      if (node < 0 || state.drawn.empty()) break;
      EXPECT_EQ(state.drawn[static_cast<std::size_t>(node)], token) << "after node " << node;
      node = state.tree.child(node, token);
      ++compared;
    }
    state.drawn.clear();
    const auto known = std::min(state.ahead.size(), committed.tokens.size());
    state.ahead.erase(state.ahead.begin(),
                      state.ahead.begin() + static_cast<std::ptrdiff_t>(known));
  }

  void propose(std::span<DraftJob> jobs) override {
    for (DraftJob& job : jobs) {
      const std::vector<TokenId>& ahead = static_cast<State&>(*job.state).ahead;
      const int window = std::min({kWindow, job.plan.nodes, job.plan.levels});
      NodeId node = 0;
      for (int i = 0; i < window; ++i) {
        const auto place = static_cast<std::size_t>(i);
        const float log_p = -0.1f * static_cast<float>(i + 1);
        node = place < ahead.size()
                   ? job.tree->add(node, ahead[place], log_p, job.source)
                   : job.tree->add_probe(node, (*job.tree)[node].token, log_p, job.source);
      }
    }
  }

  int probes = 0;
  int compared = 0;
};

Request request(double temperature) {
  Request result;
  result.prompt = {1, 403, 407, 261, 378};
  result.max_new = 60;
  result.sampler.temperature = temperature;
  return result;
}

TEST(Probes, AreComputedReadBackAndNeverPartOfTheText) {
  for (const char* policy : {"fixed", "throughput"}) {
    for (const double temperature : {0.0, 0.8}) {
      const Request asked = request(temperature);
      const Answer plain = TestEngine(small_model(), make_drafter("none", {})).run(asked);
      auto made = std::make_unique<JacobiDrafter>();
      const JacobiDrafter& jacobi = *made;
      test::TestOptions options;
      options.policy = policy;
      TestEngine engine(small_model(), std::move(made), options);
      const Answer answer = engine.run(asked);
      EXPECT_EQ(answer.tokens, plain.tokens) << policy << " at " << temperature;
      EXPECT_GT(jacobi.probes, 0) << policy << " at " << temperature;
      EXPECT_GE(jacobi.compared, answer.statistics.rounds - 1) << policy << " at " << temperature;
      if (policy != std::string("fixed") || temperature > 0) continue;
      EXPECT_LT(answer.statistics.rounds, plain.statistics.rounds) << "some guesses come true";
    }
  }
}

/// Counts draws.
class CountingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void race(const View& logits, std::span<const RaceDraw> rows, const Indices& winners,
            const View& largest) override {
    draws += logits.rows;
    ForwardingBackend::race(logits, rows, winners, largest);
  }
  int draws = 0;
};

TEST(Draws, AreMadeOnceAndOnlyWhereTheDrafterLooks) {
  for (const char* drafter : {"jacobi:window=4", "lookahead"}) {
    auto backend = std::make_unique<CountingBackend>(make_reference_backend(1));
    const CountingBackend& counted = *backend;
    TestModel model(TALON_TEST_DATA "/golden/stories260k/target", std::move(backend));
    test::TestOptions options;
    options.policy = "fixed";
    const Answer answer = TestEngine(model, make_drafter(drafter, {}), options).run(request(0.8));
    const SequenceStatistics& statistics = answer.statistics;
    const int nodes = 1 + std::accumulate(statistics.drafted.begin(), statistics.drafted.end(),
                                          statistics.rounds);  // the prompt's last one, too
    ASSERT_GT(nodes, 100) << drafter;
    if (drafter == std::string("lookahead")) {
      EXPECT_GT(counted.draws, 0);
      EXPECT_LT(counted.draws, nodes / 2);
    } else {
      EXPECT_EQ(counted.draws, nodes);
    }
  }
}

TEST(Probes, ReachTheDrafterThroughAMergedOne) {
  auto made = std::make_unique<JacobiDrafter>();
  const JacobiDrafter& jacobi = *made;
  std::vector<MergedPart> parts;
  parts.push_back({"jacobi", std::move(made)});
  parts.push_back({"suffix", make_drafter("suffix", {})});
  test::TestOptions options;
  options.policy = "fixed";
  TestEngine engine(small_model(), make_merged_drafter(std::move(parts)), options);
  const Answer plain = TestEngine(small_model(), make_drafter("none", {})).run(request(0));
  EXPECT_EQ(engine.run(request(0)).tokens, plain.tokens);
  EXPECT_GT(jacobi.compared, 0);
}

}  // namespace
}  // namespace talon::probes_test
