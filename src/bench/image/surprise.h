#pragma once

#include <span>

#include "engine/request.h"
#include "model/model.h"

namespace talon {

/// How surprising codes are to the law that they should be drawn from: the sum of -log p(x) - H(p)
/// over them, p what the sampler makes of the guided logits at each place. Exact drawing has
/// expectation 0 whatever the pictures are; above it codes are too unlikely, as look-alikes are,
/// below it too likely.
struct Surprise {
  double sum = 0;       // nats
  double variance = 0;  // of the sum, if the codes were drawn from p
  int codes = 0;
  int impossible = 0;  // codes of probability 0, which are left out of the sum

  double mean() const { return codes > 0 ? sum / codes : 0; }
  /// About normal with variance 1 for exact drawing.
  double z() const;
  void add(const Surprise& other);
};

/// Of an answer to `request`, in one forward; what must stand at its place is no code. REQUIRES: a
/// model that draws pictures, an answer no longer than a picture's.
Surprise surprise_of(const Model& model, const Request& request, std::span<const TokenId> answer);

}  // namespace talon
