#pragma once

#include <array>
#include <cstdint>

namespace talon {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four
/// random words that are a pure function of (key, counter). Nothing is stored, so a draw does not
/// depend on which draws came before it.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

/// What a random number is for; part of the counter, so that purposes never share a number.
enum class RandomUse : std::uint32_t { sample = 0, accept = 1, draft = 2, test = 3 };

/// The randomness of one answer. The draw at a position depends on (seed, choice, position, use,
/// draw index) alone: plain decoding, a tree, a batch and a restart all see the same number there
/// (docs/design.md).
class PositionRandom {
 public:
  PositionRandom(std::uint64_t seed, std::uint32_t choice) : seed_(seed), choice_(choice) {}

  /// A uniform double in [0, 1) with 53 random bits, for the token at `position` (0-based in the
  /// whole sequence).
  double uniform(std::uint64_t position, RandomUse use, std::uint32_t draw = 0) const;

 private:
  std::uint64_t seed_;
  std::uint32_t choice_;
};

}  // namespace talon
