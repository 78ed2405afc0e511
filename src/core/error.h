#pragma once

#include <fmt/core.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace talon {

/// Something outside the program is wrong: a file, a field, a machine. The message says what was
/// being done, on what, what was expected and what was found. Thrown while loading, and inside a
/// step where an answer cannot go on: there the engine ends that answer (engine/faults.h). One
/// catch in main prints what reaches it and exits with 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user asked for something that cannot be meant (an unknown option value, a bad number). Exit
/// code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// It may be had another time: what is missing now (a thread, an end of earlier work) is no fault
/// of what was asked for.
class BusyError : public Error {
 public:
  using Error::Error;
};

/// A broken promise inside the program. Thrown by expects(). Caught only to report it or to end the
/// one sequence it struck.
class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Bug with the caller's file and line unless `condition` holds. Always on, outside kernels.
inline void expects(bool condition, std::string_view what = "a precondition",
                    std::source_location where = std::source_location::current()) {
  if (!condition) {
    throw Bug(fmt::format("{}:{}: {} does not hold", where.file_name(), where.line(), what));
  }
}

}  // namespace talon
