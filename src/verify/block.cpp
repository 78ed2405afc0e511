#include "verify/block_rule.h"
#include "verify/checked_tree.h"
#include "verify/rules.h"

namespace talon {
namespace {

class BlockRule : public Verifier {
 public:
  std::string_view name() const override { return "block"; }
  bool lossless() const override { return true; }

  VerifyResult verify(const VerifyInput& input) const override {
    CheckedTree tree(input);
    PositionDecisions decisions(input);
    return verify_block(tree, decisions);
  }
};

}  // namespace

VerifierEntry block_rule() {
  return {.name = "block",
          .summary =
              "decides on a drafted chain as a whole, from its end (block verification, "
              "arXiv:2403.10444); of a tree, on its first branch",
          .options = {},
          .make = [](Options&, const VerifierContext*) -> std::unique_ptr<Verifier> {
            return std::make_unique<BlockRule>();
          }};
}

}  // namespace talon
