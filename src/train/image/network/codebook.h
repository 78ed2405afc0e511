#pragma once

#include <torch/types.h>

#include <cstdint>

namespace talon {

/// The unit vectors that a tokenizer's vectors are replaced by. They follow what they stand for by
/// moving averages (VQ-VAE, arXiv:1711.00937, appendix A.1), and a code that stands for almost
/// nothing takes the place of a vector that is badly served.
class Codebook {
 public:
  Codebook(std::int64_t codes, std::int64_t width);

  /// Sets all codes to vectors of `sample` [rows, width], drawn by `seed`.
  void start(const torch::Tensor& sample, std::uint64_t seed);
  /// The nearest code of each unit vector [rows, width]: [rows] int64, ties to the first.
  torch::Tensor nearest(const torch::Tensor& vectors) const;
  torch::Tensor look_up(const torch::Tensor& codes) const;
  /// Moves the codes towards the vectors that chose them, and restarts at most `most_restarts` that
  /// are not used. Returns how many.
  int follow(const torch::Tensor& vectors, const torch::Tensor& codes, int most_restarts,
             std::uint64_t seed);

  /// What a checkpoint keeps. vectors: [codes, width], unit rows; uses: [codes]; sums: as vectors.
  torch::Tensor vectors, uses, sums;
  bool started = false;
};

/// e to the entropy of how often the codes occur.
double perplexity(const torch::Tensor& code_counts);

}  // namespace talon
