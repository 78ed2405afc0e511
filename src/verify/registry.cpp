#include <fmt/format.h>

#include <array>
#include <string>

#include "core/error.h"
#include "verify/rules.h"
#include "verify/verifier.h"

namespace talon {
namespace {

constexpr std::array kVerifiers = {
    VerifierEntry{
        "follow",
        "draws the target's own token at each node and follows the child that equals it: the "
        "tokens of plain decoding (default)",
        "", make_follow_rule},
    VerifierEntry{
        "token",
        "accepts each draft token with min(1, p/q), siblings in turn (speculative sampling, "
        "arXiv:2211.17192; trees as SpecInfer and EAGLE-1)",
        "", make_token_rule},
    VerifierEntry{"block",
                  "decides on a drafted chain as a whole, from its end (block verification, "
                  "arXiv:2403.10444); of a tree, on its first branch",
                  "", make_block_rule},
    VerifierEntry{
        "traversal",
        "decides on a drafted tree from its leaves (traversal verification, arXiv:2505.12398)", "",
        make_traversal_rule},
    VerifierEntry{
        "typical",
        "relaxed: accepts what is not too unlikely (Medusa, arXiv:2401.10774); changes the text's "
        "distribution and reports by how much",
        "epsilon=0.09 probability that is always enough; delta=0.3 factor of exp(-entropy)",
        make_typical_rule},
};

}  // namespace

std::span<const VerifierEntry> verifiers() { return kVerifiers; }

std::unique_ptr<Verifier> make_verifier(std::string_view text) {
  OptionText options(text);
  std::string names;
  for (const VerifierEntry& entry : kVerifiers) {
    if (entry.name == options.name()) {
      auto verifier = entry.make(options);
      options.finish();
      return verifier;
    }
    names += names.empty() ? "" : ", ";
    names += entry.name;
  }
  throw UsageError(fmt::format("verify: expected one of {}, found \"{}\"", names, options.name()));
}

}  // namespace talon
