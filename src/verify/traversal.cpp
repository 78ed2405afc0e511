#include "verify/checked_tree.h"
#include "verify/rules.h"
#include "verify/traversal_rule.h"

namespace talon {
namespace {

class TraversalRule : public Verifier {
 public:
  std::string_view name() const override { return "traversal"; }
  bool lossless() const override { return true; }

  VerifyResult verify(const VerifyInput& input) const override {
    CheckedTree tree(input);
    PositionDecisions decisions(input);
    return verify_by_traversal(tree, decisions);
  }
};

}  // namespace

VerifierEntry traversal_rule() {
  return {
      .name = "traversal",
      .summary =
          "decides on a drafted tree from its leaves (traversal verification, arXiv:2505.12398)",
      .options = {},
      .make = [](Options&, const VerifierContext*) -> std::unique_ptr<Verifier> {
        return std::make_unique<TraversalRule>();
      }};
}

}  // namespace talon
