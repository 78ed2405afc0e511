#pragma once

#include "model/config/tensor_names.h"
#include "model/load/tensor_loader.h"

namespace talon {

/// Loads the tables of a model that draws: the rows of its inputs, codes first, then what only
/// prompts hold; and the output matrix, which has rows for codes alone.
void load_picture_tables(TensorLoader& tensors, const TensorNames& names, Model& model);

}  // namespace talon
