#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "core/option_text.h"
#include "tree/calibration.h"
#include "tree/cost_model.h"
#include "tree/tree_policy.h"

namespace talon {

/// What all sequences of an engine learn together about the machine and the drafter. Owned by the
/// engine, which feeds `cost` once per check; policies feed `calibration`. Outlives the policies.
struct SharedEstimates {
  explicit SharedEstimates(int max_rows) : cost(max_rows) {}
  CostModel cost;
  Calibration calibration;
};

/// What a policy may need to be made. Borrowed.
struct PolicyContext {
  SharedEstimates* estimates = nullptr;
};

/// A row of the explicit table of policies: adding one is one .cpp file and one row.
struct PolicyEntry {
  std::string_view name;
  std::string_view summary;  // one line, with the paper
  std::string_view options;  // "key=default meaning; ..."
  std::unique_ptr<TreePolicy> (*make)(OptionText& options, const PolicyContext& context);
};
std::span<const PolicyEntry> policies();

/// Makes the policy that `text` (`throughput`) names. Throws UsageError listing the names that
/// exist.
std::unique_ptr<TreePolicy> make_policy(std::string_view text, const PolicyContext& context);

}  // namespace talon
