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

std::unique_ptr<Verifier> make_block_rule(OptionText&) { return std::make_unique<BlockRule>(); }

}  // namespace talon
