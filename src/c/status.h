#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "talon.h"

namespace talon {

/// An error with a status of its own.
class StatusError : public Error {
 public:
  StatusError(talon_status status, const std::string& message) : Error(message), status_(status) {}
  talon_status status() const { return status_; }

 private:
  talon_status status_;
};

/// Keeps the message of the exception that is being handled for talon_last_error() of this thread,
/// and returns its status.
talon_status note_failure(const char* call) noexcept;

/// Runs the work of the function `call` of the C interface: whatever it throws becomes a status.
template <typename Work>
talon_status guarded(const char* call, Work&& work) noexcept {
  try {
    work();
    return TALON_OK;
  } catch (...) {
    return note_failure(call);
  }
}

/// Throws UsageError naming the argument unless `holds`.
template <typename Found>
void require(bool holds, const std::string& argument, const char* expected, const Found& found) {
  if (holds) return;
  throw UsageError(fmt::format("{}: expected {}, found {}", argument, expected, found));
}

/// What `work` returns; lets errors of use name the argument that they are about.
template <typename Work>
auto naming(std::string_view argument, Work&& work) {
  try {
    return work();
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", argument, error.what()));
  }
}

/// `pointer`, which is not null.
template <typename T>
T& require_pointer(T* pointer, const std::string& argument, const char* expected) {
  if (!pointer) throw UsageError(fmt::format("{}: expected {}, found NULL", argument, expected));
  return *pointer;
}

}  // namespace talon
