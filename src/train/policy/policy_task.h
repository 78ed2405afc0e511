#pragma once

#include <filesystem>

#include "train/policy/fit.h"

namespace talon {

/// A network with the data it learns from.
class PolicyTask {
 public:
  virtual ~PolicyTask() = default;
  /// Borrows the task.
  virtual FitTask fit_task() = 0;
  /// Writes the network as its policy reads it.
  virtual void write(const std::filesystem::path& file) const = 0;
};

}  // namespace talon
