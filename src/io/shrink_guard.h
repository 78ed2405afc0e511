#pragma once

#include <cstddef>

namespace talon {

/// Watches a mapping of a file for as long as it lives. Reading a page that the file no longer has,
/// because another program made it shorter, is a SIGBUS, which ends a process: under a guard the
/// page reads as zeros instead, and damaged() says so. The process's handler of that signal is set
/// with the first guard and stays; a SIGBUS elsewhere goes to what handled it before.
class ShrinkGuard {
 public:
  ShrinkGuard() = default;
  /// REQUIRES: the mapping, which begins at a page, outlives the guard. Throws Error when thousands
  /// of files are mapped.
  ShrinkGuard(const void* begin, std::size_t size);
  ~ShrinkGuard();
  ShrinkGuard(ShrinkGuard&& other) noexcept;
  ShrinkGuard& operator=(ShrinkGuard&& other) noexcept;

  bool damaged() const;

 private:
  int place_ = -1;  // in the list that the handler reads
};

}  // namespace talon
