#pragma once

#include <string>

#include "tree/policy_registry.h"

namespace talon::test {

/// The policy of that entry with its usual options; one that needs a file gets that of stories260K.
inline std::string policy_text(const PolicyEntry& entry) {
  const std::string name(entry.name);
  const Option* option = find_required(entry.options);
  if (!option) return name;
  const std::string file = name == "radar" ? "golden/methods/radar_policy_llama3.safetensors"
                                           : "policies/" + name + ".safetensors";
  return name + ":" + option->name + "=" + TALON_TEST_DATA "/" + file;
}

}  // namespace talon::test
