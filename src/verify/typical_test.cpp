#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "io/json_text.h"
#include "verify/test_input.h"

namespace talon::typical_test {
namespace {

TEST(TypicalRule, AcceptsWhatMedusasOfficialCodeAccepts) {
  std::ifstream file(TALON_TEST_DATA "/golden/methods/medusa.json");
  const Json json =
      parse_json(std::string(std::istreambuf_iterator<char>(file), {}), "medusa.json");
  const auto parents = json["trees"]["small"]["parent"].get<std::vector<NodeId>>();
  const Json& paths = json["trees"]["small"]["retrieve_indices"];
  int relaxed = 0;
  for (const Json& stored : json["posterior"]) {
    DraftTree tree(stored["tokens"][0]);
    std::vector<NodeId> added = {0};  // siblings with the same token are one node
    for (std::size_t node = 1; node < parents.size(); ++node) {
      added.push_back(
          tree.add(added[static_cast<std::size_t>(parents[node])], stored["tokens"][node], 0));
    }
    std::vector<std::vector<float>> rows(static_cast<std::size_t>(tree.size()));
    for (std::size_t node = 0; node < parents.size(); ++node) {
      rows[static_cast<std::size_t>(added[node])] =
          stored["target_logits"][node].get<std::vector<float>>();
    }
    for (const Json& result : stored["results"]) {
      TestInput test(tree, rows, {.temperature = result["temperature"]});
      std::string rule = "typical";
      if (result.contains("posterior_threshold")) {
        rule += fmt::format(":epsilon={},delta={}", result["posterior_threshold"].get<double>(),
                            result["posterior_alpha"].get<double>());
      }
      const VerifyResult found = make_verifier(rule)->verify(test.input());
      const std::size_t accepted = result["accept_length"];
      const Json& path = paths[result["best_candidate"].get<std::size_t>()];
      ASSERT_EQ(found.path.size(), accepted + 1);
      double distortion = 0;
      for (std::size_t depth = 1; depth <= accepted; ++depth) {
        const std::size_t node = path[depth];
        EXPECT_EQ(found.path[depth], added[node]);
        if (result["temperature"] != 0) {
          distortion += 1 - result["node_prob_under_parent"][node].get<double>();
        }
      }
      EXPECT_NEAR(found.distortion, distortion, 1e-6);
      relaxed += distortion > 0 ? 1 : 0;
      if (result["temperature"] == 0) {
        EXPECT_EQ(found.next, result["next_argmax"].get<TokenId>());
      }
    }
  }
  EXPECT_GT(relaxed, 100);
}

TEST(TypicalRule, ReportsHowFarItsLawIsFromTheTargets) {
  // Token 1 has p = 0.3 and is always accepted: the first token's law is 0.7 away from the
  // target's.
  DraftTree tree(0);
  tree.add(0, 1, -1.0f);
  const std::vector<std::vector<float>> rows = {logits_of({0.5, 0.3, 0.2}),
                                                logits_of({0.5, 0.3, 0.2})};
  TestInput test(tree, rows, {.temperature = 1});
  const auto rule = make_verifier("typical");
  EXPECT_FALSE(rule->lossless());
  EXPECT_NEAR(rule->verify(test.input()).distortion, 0.7, 1e-6);
  EXPECT_NEAR(rule->verify(test.input()).relaxed, 0.7, 1e-6) << "the exact rule takes it with 0.3";
  EXPECT_EQ(make_verifier("typical:epsilon=1,delta=1")->verify(test.input()).path.size(), 1u);
}

TEST(VerifierRegistry, RefusesUnknownRulesAndOptions) {
  EXPECT_THROW(make_verifier("magic"), UsageError);
  EXPECT_THROW(make_verifier("token:epsilon=1"), UsageError);
  EXPECT_THROW(make_verifier("typical:epsilon=2"), UsageError);
}

}  // namespace
}  // namespace talon::typical_test
