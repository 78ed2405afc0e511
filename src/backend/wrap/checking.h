#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace talon {

struct Mismatch {
  std::string operation;
  double largest_difference = 0;
  double scale = 0;  // root mean square of the expected values
};
/// Runs every operation on `backend` and, with the same inputs, on `reference`; reports each whose
/// outputs differ by more than `tolerance` times the root mean square of the expected row. Results
/// are those of `backend`. Owns both.
class CheckingBackend : public Backend {
 public:
  virtual const std::vector<Mismatch>& mismatches() const = 0;
};
std::unique_ptr<CheckingBackend> make_checking_backend(std::unique_ptr<Backend> backend,
                                                       std::unique_ptr<Backend> reference,
                                                       double tolerance);

}  // namespace talon
