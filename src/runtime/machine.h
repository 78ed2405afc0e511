#pragma once

#include <string>
#include <string_view>

namespace talon {

/// The commit this program was built from, or "unknown".
std::string_view build_commit();

/// What a reader of a measurement must know of the machine it was taken on.
struct Machine {
  std::string processor;  // as the system names it, or "unknown"
  int processors = 0;     // this process may use
  double memory_gib = 0;
  double last_level_cache_mib = 0;  // 0: unknown
};
Machine describe_machine();

}  // namespace talon
