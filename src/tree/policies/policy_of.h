#pragma once

#include <memory>
#include <utility>

#include "tree/tree_policy.h"

namespace talon {

/// A policy that is nothing but its options; its states read them.
template <typename State, typename Options>
class PolicyOf : public TreePolicy {
 public:
  explicit PolicyOf(Options options) : options_(std::move(options)) {}
  std::unique_ptr<PolicyState> start(DrafterEstimates&, const MachineCosts&) const override {
    return std::make_unique<State>(options_);
  }

 private:
  Options options_;
};

}  // namespace talon
