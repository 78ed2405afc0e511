#include "verify/checked_tree.h"
#include "verify/relaxed/epsilon_rule.h"
#include "verify/rules.h"

namespace talon {
namespace {

class EpsilonRule : public Verifier {
 public:
  explicit EpsilonRule(double most) : most_(most) {}
  std::string_view name() const override { return "epsilon"; }
  bool lossless() const override { return most_ == 0; }

  VerifyResult verify(const VerifyInput& input) const override {
    CheckedTree tree(input);
    PositionDecisions decisions(input);
    double distortion = 0;
    // At temperature 0 nothing is random: the target's own token is the text.
    const double most = input.sampler->options().temperature == 0 ? 0 : most_;
    VerifyResult result = verify_by_epsilon(tree, decisions, most, distortion);
    result.distortion = distortion;
    return result;
  }

 private:
  double most_;
};

std::unique_ptr<Verifier> make_epsilon(Options& options, const VerifierContext* /*context*/) {
  return std::make_unique<EpsilonRule>(options.real("e"));
}

}  // namespace

VerifierEntry epsilon_rule() {
  return {
      .name = "epsilon",
      .summary =
          "relaxed: speculative sampling of a law that is at most e (total variation) nearer to "
          "the draft's than the target's is; changes the text's distribution by as much",
      .options = {{"e", RealNumber{0, 1}, "0.05", "total variation a token at most"}},
      .make = make_epsilon};
}

}  // namespace talon
