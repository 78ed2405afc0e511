#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "model/model.h"

namespace talon {

/// How a backend keeps the matrices that a tensor of a file holds.
struct KeptTensor {
  std::string layout;  // Weight::layout; of a stack whose matrices differ all of them
  std::uint64_t bytes = 0;
  bool exact = true;

  void add(const Weight& weight);
};
using KeptTensors = std::map<std::string, KeptTensor>;

/// Loads a model of texts by load_model()'s own loader and keeps no matrix, so that there need not
/// be room for the model. The result has the names of tensors: of a matrix that is put together,
/// the one with its codes stands for all of it. What is not there takes no memory of its own.
/// Throws Error as load_model() does.
KeptTensors weigh_model(const Checkpoint& checkpoint, std::unique_ptr<Backend> backend,
                        const LoadOptions& options = {});

}  // namespace talon
