#pragma once

#include <cstdlib>
#include <string>

namespace talon {

/// A variable of the environment; empty if it is not set. Commands alone read them: what the
/// libraries need to know of them are arguments.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace talon
