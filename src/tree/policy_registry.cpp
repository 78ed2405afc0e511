#include "tree/policy_registry.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "core/error.h"
#include "tree/policies/policies.h"

namespace talon {
namespace {

constexpr std::array kPolicies = {
    PolicyEntry{
        "throughput",
        "buys draft nodes while they gain more time than they cost on this machine (default)", "",
        make_throughput_policy},
    PolicyEntry{"fixed", "always the whole tree that the drafter's own options describe", "",
                make_fixed_policy},
};

}  // namespace

std::span<const PolicyEntry> policies() { return kPolicies; }

std::unique_ptr<TreePolicy> make_policy(std::string_view text, const PolicyContext& context) {
  OptionText options(text);
  std::string names;
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == options.name()) {
      auto policy = entry.make(options, context);
      options.finish();
      return policy;
    }
    names += names.empty() ? "" : ", ";
    names += entry.name;
  }
  throw UsageError(fmt::format("policy: expected one of {}, found \"{}\"", names, options.name()));
}

}  // namespace talon
