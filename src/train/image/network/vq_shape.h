#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "io/json.h"
#include "train/head/math/parameters.h"

namespace talon {

/// Sizes of a VQ tokenizer in LlamaGen's layout. The finest level comes first.
struct VqShape {
  int channels = 32;
  std::vector<int> multipliers = {1, 2, 2};  // of the channels, a level each
  int blocks = 1;                            // of a level of the encoder; the decoder has one more
  int latent = 64;                           // channels between the quantised vectors and the rest
  int codes = 1024;
  int code_width = 8;

  int levels() const { return static_cast<int>(multipliers.size()); }
  int width(int level) const { return channels * multipliers[static_cast<std::size_t>(level)]; }
  /// Pixels along the side of a cell.
  int cell() const { return 1 << (levels() - 1); }
};

Json to_json(const VqShape& shape);

/// All trained tensors by their names in LlamaGen's checkpoints, but for the codebook, which
/// follows the vectors that it stands for (train/image/network/codebook.h).
std::vector<ParameterStore::Shape> parameter_shapes(const VqShape& shape);

/// Draws initial values: He's for convolutions, ones and zeros for norms and biases.
void set_initial_values(ParameterStore& parameters, std::uint64_t seed);

}  // namespace talon
