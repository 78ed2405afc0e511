#include "trace/tree_text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace talon::tree_text_test {
namespace {

float ln(double p) { return static_cast<float>(std::log(p)); }

/// root 1 -> 2 (accepted) -> 3 (accepted), 4; root -> 5
struct Example {
  Example() {
    tree.add(0, 5, ln(0.2));
    tree.add(0, 2, ln(0.6));
    tree.add(2, 3, ln(0.3), 3);
    tree.add(2, 4, ln(0.1));
    tree.add(1, 6, ln(0.05));
    report.round = 7;
    report.position = 40;
    report.tree = &tree;
    report.accepted = accepted;
    report.emitted = emitted;
    report.draft_ms = 0.5;
    report.check_ms = 6.25;
    report.other_ms = 0.125;
  }
  DraftTree tree{1};
  std::vector<NodeId> accepted = {0, 2, 3};
  std::vector<TokenId> emitted = {2, 3, 9};
  RoundReport report;
};

std::string piece(TokenId token) {
  return std::vector<std::string>{"",   " the", " cat", " sat", " ran",
                                  "\n", "\"x",  "",     "",     "\xff\x1b"}
      .at(static_cast<std::size_t>(token));
}

TEST(TreeText, ShowsTheTreeItsChancesAndWhatWasAccepted) {
  const Example example;
  EXPECT_EQ(tree_text(example.report, {.bytes_of = piece}),
            "round 7 at position 40: 2 of 5 draft nodes accepted; draft 0.50 ms, check 6.25 ms, "
            "other 0.12 ms\n"
            "\" the\"\n"
            "├─ 60% \" cat\" ✓\n"
            "│  ├─ 30% \" sat\" ✓\n"
            "│  └─ 10% \" ran\"\n"
            "└─ 20% \"\\n\"  5% \"\\\"x\"\n"
            "text: \" cat\" \" sat\" \"\uFFFD\\x1b\"\n");
}

TEST(TreeText, ShowsIdsWithoutATokenizerAndWhoProposedANode) {
  const Example example;
  const std::string text = tree_text(example.report, {.sources = {"eagle3", "suffix"}});
  EXPECT_NE(text.find("├─ 30% 3 (eagle3, suffix) ✓\n"), std::string::npos) << text;
  EXPECT_NE(text.find("└─ 20% 5 (eagle3)  5% 6 (eagle3)\n"), std::string::npos) << text;
}

TEST(TreeText, ColorsWhatWasAcceptedOnly) {
  const Example example;
  const std::string text = tree_text(example.report, {.color = true});
  EXPECT_NE(text.find("\x1b[1;32m60% 2 ✓\x1b[0m"), std::string::npos);
  EXPECT_NE(text.find("─ 10% 4\n"), std::string::npos);
}

TEST(TreeText, ARootAloneIsATreeToo) {
  const DraftTree tree(3);
  const std::vector<NodeId> accepted = {0};
  const std::vector<TokenId> emitted = {4};
  RoundReport report;
  report.tree = &tree;
  report.accepted = accepted;
  report.emitted = emitted;
  EXPECT_NE(tree_text(report, {}).find("0 of 0 draft nodes"), std::string::npos);
}

TEST(SourceNames, AreThoseOfAMergedDraftersParts) {
  EXPECT_EQ(source_names("ngram+suffix:nodes=8"), (std::vector<std::string>{"ngram", "suffix"}));
  EXPECT_TRUE(source_names("ngram:nodes=8").empty());
}

}  // namespace
}  // namespace talon::tree_text_test
