#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "engine/request.h"
#include "model/model.h"
#include "sample/sampler.h"

namespace talon {

/// How surprising the codes of a picture are to the law that they should be drawn from: the sum of
/// -log p(x) - H(p) over them, p what the sampler makes of the guided logits at each place. Exact
/// drawing has expectation 0 whatever the pictures are; above it codes are too unlikely, as
/// look-alikes are, below it too likely.
struct Surprise {
  double sum = 0;       // nats
  double variance = 0;  // of the sum, if the codes were drawn from p
  int codes = 0;
  int impossible = 0;  // codes of probability 0, which are left out of the sum

  double mean() const { return codes > 0 ? sum / codes : 0; }
  /// One more code. law: what can be drawn at its place, summing to 1.
  void add(std::span<const Sampler::Candidate> law, TokenId code);
};

/// That of many pictures.
class SurpriseOfPictures {
 public:
  /// seed: of the picture's request.
  void add(std::uint64_t seed, const Surprise& picture);
  double mean() const { return codes_ > 0 ? sum_ / codes_ : 0; }
  int impossible() const { return impossible_; }
  /// How many standard errors the sum is from 0. About normal with variance 1 for exact drawing
  /// where each picture has a seed of its own. Pictures of one seed are a cluster: they are drawn
  /// with the same noise, whatever their prompts, and how far their sums go together nobody knows.
  /// The sum of a cluster counts with the most variance that it can have, the square of the sum of
  /// its pictures' standard errors, so that the variance of z is at most 1.
  double z() const;

 private:
  double sum_ = 0;
  int codes_ = 0, impossible_ = 0;
  std::map<std::uint64_t, double> errors_;  // by seed: the standard errors of its pictures, summed
};

/// Of an answer to `request`, in one forward; what must stand at its place is no code. REQUIRES: a
/// model that draws pictures, an answer no longer than a picture's.
Surprise surprise_of(const Model& model, const Request& request, std::span<const TokenId> answer);

}  // namespace talon
