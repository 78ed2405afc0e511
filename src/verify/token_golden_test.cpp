#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <vector>

#include "io/json_text.h"
#include "sample/sampler.h"
#include "verify/exact_enumeration.h"
#include "verify/token_rule.h"

namespace talon::token_golden_test {
namespace {

/// Compares recorded uniforms as the official code does, and remembers the law of the next token.
struct RecordedDecisions {
  bool accept(NodeId, double probability) { return uniforms.at(used++) <= probability; }
  TokenId draw(NodeId, const Law<double>& law) {
    next_law = law;
    return 0;
  }
  std::vector<double> uniforms;
  std::size_t used = 0;
  Law<double> next_law;
};

/// The order of the official code: temperature, top-p, then top-k.
Law<double> processed(const std::vector<float>& logits, const Json& processor) {
  SamplerOptions options;
  options.temperature = processor["temperature"];
  const double top_p = processor["top_p"];
  if (top_p > 0) options.top_p = top_p;
  Sampler sampler(options, static_cast<int>(logits.size()));
  const auto tokens = sampler.distribution_by_token(logits, {});
  std::vector<Sampler::Candidate> candidates(tokens.begin(), tokens.end());
  std::ranges::stable_sort(candidates, std::greater{}, &Sampler::Candidate::p);
  const std::size_t top_k = processor["top_k"];
  Law<double> law;
  for (const auto& [token, p] : candidates) {
    if (top_k == 0 || law.entries.size() < top_k) law.entries.push_back({token, p});
  }
  std::sort(law.entries.begin(), law.entries.end(),
            [](const auto& a, const auto& b) { return a.token < b.token; });
  law.divide_by(law.total());
  return law;
}

/// The tree with its children in the order of the recorded paths; node ids are those of the file's
/// `retrieve`.
struct RecordedTree {
  RecordedTree(const Json& json, const Json& processor) {
    const auto tokens = json["tokens"].get<std::vector<TokenId>>();
    const auto parents = json["parent"].get<std::vector<NodeId>>();
    std::vector<std::string> prefixes(tokens.size());
    for (std::size_t node = 0; node < tokens.size(); ++node) {
      if (node > 0) {
        prefixes[node] = prefixes[static_cast<std::size_t>(parents[node])] +
                         static_cast<char>('0' + tokens[node]);
      }
      laws[prefixes[node]] = processed(json["logits"][node].get<std::vector<float>>(), processor);
    }
    grow(json, tokens, 0, 0, 0);
  }
  void grow(const Json& json, const std::vector<TokenId>& tokens, NodeId to, NodeId recorded,
            std::size_t depth) {
    std::vector<NodeId> children;
    for (const Json& row : json["retrieve"]) {
      if (row[depth] != recorded || depth + 1 == row.size()) continue;
      const NodeId child = row[depth + 1];
      if (child >= 0 && std::find(children.begin(), children.end(), child) == children.end())
        children.push_back(child);
    }
    std::vector<TokenId> child_tokens;
    for (const NodeId child : children)
      child_tokens.push_back(tokens[static_cast<std::size_t>(child)]);
    const NodeId first = tree.add(to, child_tokens, false);
    for (std::size_t i = 0; i < children.size(); ++i) {
      grow(json, tokens, first + static_cast<NodeId>(i), children[i], depth + 1);
    }
  }
  Conditionals<double> laws;
  TableTree<double> tree{laws, laws};
};

TEST(TokenRule, DecidesAsTheOfficialEagleCodeOnFixedTrees) {
  std::ifstream file(TALON_TEST_DATA "/golden/stories260k/posterior.json");
  const Json json =
      parse_json(std::string(std::istreambuf_iterator<char>(file), {}), "posterior.json");
  int cases = 0;
  for (const Json& stored : json["trees"]) {
    for (const Json& processor : stored["processors"]) {
      RecordedTree recorded(stored, processor);
      for (const Json& one : processor["cases"]) {
        SCOPED_TRACE(fmt::format("{} T {} case {}", stored["name"].get<std::string>(),
                                 processor["temperature"].get<double>(), cases++));
        RecordedDecisions decisions{one["uniforms"], 0, {}};
        const VerifyResult result = verify_by_token(recorded.tree, decisions);
        EXPECT_EQ(result.path.size() - 1, one["accept_length"].get<std::size_t>());
        EXPECT_EQ(decisions.used, decisions.uniforms.size());
        std::string path;
        const Json& row = stored["retrieve"][one["best_candidate"].get<std::size_t>()];
        for (std::size_t depth = 1; depth < result.path.size(); ++depth) {
          path +=
              static_cast<char>('0' + stored["tokens"][row[depth].get<std::size_t>()].get<int>());
        }
        EXPECT_EQ(recorded.tree.prefix(result.path.back()), path);
        for (std::size_t token = 0; token < one["sample_p"].size(); ++token) {
          EXPECT_NEAR(decisions.next_law.of(static_cast<TokenId>(token)),
                      one["sample_p"][token].get<double>(), 2e-6);
        }
      }
    }
  }
  EXPECT_EQ(cases, 4 * 4 * 24);
}

}  // namespace
}  // namespace talon::token_golden_test
