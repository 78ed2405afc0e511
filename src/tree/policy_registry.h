#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/options.h"
#include "tree/tree_policy.h"

namespace talon {

/// What a policy may need to be made.
struct PolicyContext {
  int hidden = 0;       // of the target, which predictors must fit; 0: not known, and not checked
  int picture_row = 0;  // tokens of a row of what the target draws; 0: it writes text
};

/// A row of the explicit table of policies: adding one is one .cpp file, which gives the row, and
/// its name in the table.
struct PolicyEntry {
  std::string_view name;
  std::string_view summary;  // one line, with the paper
  std::vector<Option> options;
  std::unique_ptr<TreePolicy> (*make)(Options& options, const PolicyContext& context);
};
std::span<const PolicyEntry> policies();

inline constexpr std::string_view kDefaultPolicy = "throughput";

/// Makes the policy that `text` (`throughput`) names, and reads its files. Throws UsageError
/// listing the names that exist, Error for a file that does not fit.
std::unique_ptr<TreePolicy> make_policy(std::string_view text, const PolicyContext& context = {});
/// What the policy that `text` names wants to see of the target. Throws as make_policy().
std::vector<FeatureTap> policy_taps(std::string_view text);

}  // namespace talon
