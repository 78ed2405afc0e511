#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "verify/checked_tree.h"
#include "verify/rules.h"

namespace talon {
namespace {

struct TypicalOptions {
  double epsilon;
  double delta;
};

/// The end of an accepted path.
struct AcceptedPath {
  NodeId end = 0;
  int depth = 0;
  double log_p = 0;       // of its tokens together
  double distortion = 0;  // sum of 1 - p over them
};

bool better(const AcceptedPath& a, const AcceptedPath& b) {
  return a.depth != b.depth ? a.depth > b.depth : a.log_p > b.log_p;
}

/// Typical acceptance (Medusa, arXiv:2401.10774): a child is right when its probability exceeds
/// min(epsilon, delta exp(-H)) under the target's law with entropy H, and the longest path of right
/// nodes is kept; of equal ones the likelier. The token after it is drawn with the request's
/// sampler. Relaxed: a right child becomes text with certainty and not with p, so its law is 1 - p
/// away from the target's in total variation.
class TypicalRule : public Verifier {
 public:
  explicit TypicalRule(const TypicalOptions& options) : options_(options) {}
  std::string_view name() const override { return "typical"; }
  bool lossless() const override { return false; }

  VerifyResult verify(const VerifyInput& input) const override {
    CheckedTree tree(input);
    AcceptedPath best;
    std::vector<AcceptedPath> open = {best};
    while (!open.empty()) {
      const AcceptedPath path = open.back();
      open.pop_back();
      if (better(path, best)) best = path;
      for (const AcceptedPath& longer : right_children(tree, path)) open.push_back(longer);
    }
    VerifyResult result{input.tree->path(best.end), 0, best.distortion, best.distortion};
    const std::vector<TokenId> path = path_tokens(*input.tree, best.end);
    try {
      result.next = input.sampler->sample(input.rows->logits(best.end),
                                          {input.committed, path, input.prompt_length},
                                          *input.random, input.committed.size() + path.size());
    } catch (const Error&) {  // as end_path() where the law cannot be told
      if (best.end == 0) throw;
      result.next = path.back();
      result.path.pop_back();
    }
    return result;
  }

 private:
  std::vector<AcceptedPath> right_children(CheckedTree& tree, const AcceptedPath& path) const {
    std::vector<AcceptedPath> longer;
    if (tree.children(path.end).empty()) return longer;
    const Law<double> law = tree.target(path.end);
    const double least = threshold(law);
    for (const NodeId child : tree.children(path.end)) {
      const double p = law.of(tree.token(child));
      if (!(p > least)) continue;
      longer.push_back({child, path.depth + 1, path.log_p + std::log(p), path.distortion + 1 - p});
    }
    return longer;
  }

  double threshold(const Law<double>& law) const {
    double entropy = 0;
    for (const auto& [token, p] : law.entries)
      entropy -= p * std::log(p + 1e-5);  // as Medusa's code
    return std::min(options_.epsilon, options_.delta * std::exp(-entropy));
  }

  TypicalOptions options_;
};

std::unique_ptr<Verifier> make_typical(Options& options, const VerifierContext* /*context*/) {
  return std::make_unique<TypicalRule>(
      TypicalOptions{options.real("epsilon"), options.real("delta")});
}

}  // namespace

VerifierEntry typical_rule() {
  return {.name = "typical",
          .summary =
              "relaxed: accepts what is not too unlikely (Medusa, arXiv:2401.10774); changes the "
              "text's distribution and reports by how much",
          .options = {{"epsilon", RealNumber{0, 1}, "0.09", "probability that is always enough"},
                      {"delta", RealNumber{0, 1}, "0.3", "factor of exp(-entropy)"}},
          .make = make_typical};
}

}  // namespace talon
