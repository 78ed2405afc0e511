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

VerifierEntry token_rule() {
  return {.name = "token",
          .summary =
              "accepts each draft token with min(1, p/q), siblings in turn (speculative sampling, "
              "arXiv:2211.17192; trees as SpecInfer and EAGLE-1)",
          .options = {},
          .make = [](Options&, const VerifierContext*) -> std::unique_ptr<Verifier> {
            return std::make_unique<TokenRule>();
          }};
}

}  // namespace talon
