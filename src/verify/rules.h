#pragma once

#include "verify/verifier.h"

namespace talon {

VerifierEntry follow_rule();
VerifierEntry token_rule();
VerifierEntry block_rule();
VerifierEntry traversal_rule();
VerifierEntry typical_rule();
VerifierEntry epsilon_rule();
VerifierEntry lantern_rule();

}  // namespace talon
