#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "tree/policies/test_files.h"
#include "tree/policies/test_machine.h"

namespace talon::policies_test {
namespace {

using test::alone;
using test::chain;
using test::ln;
using test::Machine;
using test::play;

TEST(Policies, TheTableNamesEachPolicyOnceAndMakesIt) {
  std::set<std::string_view> names;
  for (const PolicyEntry& entry : policies()) {
    EXPECT_NE(make_policy(test::policy_text(entry)), nullptr) << entry.name;
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    const std::string text = test::policy_text(entry);
    const std::string more = text + (text == entry.name ? ":" : ",") + "nonsense=1";
    EXPECT_THROW(make_policy(more), UsageError);
  }
  try {
    make_policy("thruput");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_TRUE(
        std::string(error.what()).starts_with("policy: expected one of throughput, fixed,"));
    EXPECT_TRUE(std::string(error.what()).ends_with("found \"thruput\""));
  }
}

TEST(Policies, EveryPolicyKeepsATreeWithinTheRowsThereAre) {
  for (const PolicyEntry& entry : policies()) {
    Machine machine(0.01);
    auto policy = machine.policy(test::policy_text(entry));
    PlanContext context = alone();
    context.rows_available = 3;
    const TreePlan plan = policy->plan(context);
    DraftTree tree = chain(10, 0.99);
    tree.add(0, 7, ln(0.9));
    test::cut(*policy, tree, plan, context);
    EXPECT_NO_THROW(check_invariants(tree)) << entry.name;
    EXPECT_LE(tree.draft_nodes(), 3) << entry.name;
    context.rows_available = 0;
    EXPECT_EQ(policy->plan(context).nodes, 0) << entry.name;
  }
}

TEST(FixedPolicy, KeepsTheDraftersWholeTree) {
  Machine machine(1000);
  EXPECT_EQ(play(*machine.policy("fixed"), machine, chain(12, 0.01), 0), 12);
}

}  // namespace
}  // namespace talon::policies_test
