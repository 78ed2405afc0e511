#include "verify/checked_tree.h"
#include "verify/rules.h"
#include "verify/token_rule.h"

namespace talon {
namespace {

class TokenRule : public Verifier {
 public:
  std::string_view name() const override { return "token"; }
  bool lossless() const override { return true; }

  VerifyResult verify(const VerifyInput& input) const override {
    CheckedTree tree(input);
    PositionDecisions decisions(input);
    return verify_by_token(tree, decisions);
  }
};

}  // namespace

std::unique_ptr<Verifier> make_token_rule(OptionText&) { return std::make_unique<TokenRule>(); }

}  // namespace talon
