#include "tree/policy_registry.h"

#include "tree/policies/policies.h"

namespace talon {

std::span<const PolicyEntry> policies() {
  static const std::vector<PolicyEntry> kPolicies = {
      throughput_policy(), fixed_policy(),     static_policy(), eagle2_policy(),
      ddd_policy(),        ada_eagle_policy(), radar_policy(),  adjacency_policy(),
  };
  return kPolicies;
}

std::unique_ptr<TreePolicy> make_policy(std::string_view text, const PolicyContext& context) {
  return make_from("policy", policies(), text, context);
}

std::vector<FeatureTap> policy_taps(std::string_view text) { return make_policy(text)->taps(); }

}  // namespace talon
