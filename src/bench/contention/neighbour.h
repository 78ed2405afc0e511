#pragma once

#include <memory>
#include <string>
#include <vector>

namespace talon {

/// What makes a machine busy. Ends with this object, and with this program however it ends.
class Neighbour {
 public:
  virtual ~Neighbour() = default;
  /// What it is, for results.
  virtual std::string description() const = 0;
};

/// Processes that compute in a loop.
std::unique_ptr<Neighbour> make_busy_loops(int count);
/// Compilers one after the other in each of `jobs` processes, with that niceness; where there is no
/// g++, processes that write to memory.
std::unique_ptr<Neighbour> make_compile_jobs(int jobs, int niceness);
/// A program. Waits until it has written something, for at most `patience_ms`; then, or if it ends
/// first, throws Error.
std::unique_ptr<Neighbour> make_program(const std::vector<std::string>& command,
                                        double patience_ms = 60'000);
/// Not a process: this one and all its threads get at most that many processors' worth of time, in
/// periods of 100 ms, until the object ends. Throws Error where no cgroup may be made.
std::unique_ptr<Neighbour> make_cpu_quota(double processors);

}  // namespace talon
