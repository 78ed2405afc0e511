#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/option_text.h"
#include "tree/calibration.h"
#include "tree/cost_model.h"
#include "tree/row_market.h"
#include "tree/tree_policy.h"

namespace talon {

/// What all sequences of an engine learn together about the machine and the drafter. Owned by the
/// engine, which feeds `cost` once per check; policies feed `calibration`. Outlives the policies.
struct SharedEstimates {
  explicit SharedEstimates(int max_rows, const CostProfile& profile = {})
      : cost(max_rows, profile) {}
  CostModel cost;
  Calibration calibration;
  RowMarket rows;
  static constexpr std::size_t kCoverages = 4;
  /// Tokens per round that passes of a draft head bring net of their time, by how much of the text
  /// cheaper drafters cover: quarters of the chance that one of them has the next token.
  std::array<double, kCoverages> pass_gain{};
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
  struct Traits {
    bool uses_costs = false;            // worth measuring them for
    std::string_view file_option = {};  // that it cannot be made without
  } traits;
};
std::span<const PolicyEntry> policies();

/// Makes the policy that `text` (`throughput`) names. Throws UsageError listing the names that
/// exist.
std::unique_ptr<TreePolicy> make_policy(std::string_view text, const PolicyContext& context);
/// What the policy that `text` names wants to see of the target. Throws as make_policy().
std::vector<FeatureTap> policy_taps(std::string_view text);
/// Whether it decides by costs, so that measuring them first is worth it.
bool policy_uses_costs(std::string_view text);

}  // namespace talon
