#pragma once

#include <memory>

#include "draft/drafter.h"
#include "tree/cost_profile.h"
#include "tree/tree_policy.h"
#include "verify/verifier.h"

namespace talon {

/// How an answer is drafted and checked. A value: requests that run and other methods may share its
/// parts (a head's weights, and what the head remembers), hence shared_ptr.
struct Method {
  std::shared_ptr<Drafter> drafter;
  std::shared_ptr<const TreePolicy> policy;
  std::shared_ptr<const Verifier> verifier;
  CostProfile costs = {};  // where what is learned of its drafter starts; may be empty
};

}  // namespace talon
