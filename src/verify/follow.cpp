#include "core/error.h"
#include "verify/drawn_tokens.h"
#include "verify/rules.h"

namespace talon {
namespace {

/// docs/methods.md 5.1: at each node draw the target's own token at that position, and descend to
/// the child that equals it. Exact for every sampler, because a draw depends on the row and the
/// position alone.
class FollowRule : public Verifier {
 public:
  std::string_view name() const override { return "follow"; }
  bool lossless() const override { return true; }
  bool drafts_may_know_noise() const override { return true; }

  VerifyResult verify(const VerifyInput& input) const override {
    VerifyResult result{{0}, 0};
    std::vector<TokenId> path_tokens;  // below the root
    while (true) {
      const NodeId node = result.path.back();
      try {
        result.next = drawn_token(input, node, path_tokens);
      } catch (const Error&) {  // of a place that plain decoding reaches in a later round, or never
        if (node == 0) throw;
        result.path.pop_back();
        return result;
      }
      const NodeId child = input.tree->child(node, result.next);
      if (child < 0) return result;
      result.path.push_back(child);
      path_tokens.push_back(result.next);
    }
  }
};

}  // namespace

VerifierEntry follow_rule() {
  return {.name = "follow",
          .summary =
              "draws the target's own token at each node and follows the child that equals it: the "
              "tokens of plain decoding (default)",
          .options = {},
          .make = [](Options&, const VerifierContext*) -> std::unique_ptr<Verifier> {
            return std::make_unique<FollowRule>();
          }};
}

}  // namespace talon
