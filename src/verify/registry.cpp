#include "verify/rules.h"
#include "verify/verifier.h"

namespace talon {

std::span<const VerifierEntry> verifiers() {
  static const std::vector<VerifierEntry> kVerifiers = {
      follow_rule(),  token_rule(),   block_rule(),   traversal_rule(),
      typical_rule(), epsilon_rule(), lantern_rule(),
  };
  return kVerifiers;
}

std::unique_ptr<Verifier> make_verifier(std::string_view text, const VerifierContext& context) {
  return make_from("verify", verifiers(), text, &context);
}

std::unique_ptr<Verifier> make_verifier(std::string_view text) {
  const VerifierContext* const none = nullptr;
  return make_from("verify", verifiers(), text, none);
}

}  // namespace talon
