#pragma once

#include <array>
#include <cstdint>

namespace talon {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four
/// random words that are a pure function of (key, counter). Nothing is stored, so a draw does not
/// depend on which draws came before it.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

/// What a random number is for; part of the counter, so that purposes never share a number. race_*:
/// the high and the low words of the noise that tokens race with (sample/race.h), which every
/// drafter may see; the others decide on drafts, which must not know them.
enum class RandomUse : std::uint32_t {
  sample = 0,
  accept = 1,
  draft = 2,
  test = 3,
  race_high = 4,
  race_low = 5
};

/// The random words of one purpose at one position: four to a block, up to 2^24 blocks.
struct WordStream {
  std::uint32_t key[2] = {};
  std::uint32_t counter[4] = {};  // of block 0
  bool operator==(const WordStream&) const = default;

  std::array<std::uint32_t, 4> block(std::uint32_t index) const {
    return philox4x32({counter[0], counter[1], counter[2] | index, counter[3]}, {key[0], key[1]});
  }
};

/// The randomness of one answer. The draw at a position depends on (seed, choice, position, use,
/// draw index) alone: plain decoding, a tree, a batch and a restart all see the same number there
/// (docs/design.md).
class PositionRandom {
 public:
  PositionRandom(std::uint64_t seed, std::uint32_t choice) : seed_(seed), choice_(choice) {}

  /// A uniform double in [0, 1) with 53 random bits, for the token at `position` (0-based in the
  /// whole sequence).
  double uniform(std::uint64_t position, RandomUse use, std::uint32_t draw = 0) const;
  WordStream words(std::uint64_t position, RandomUse use) const;

 private:
  std::uint64_t seed_;
  std::uint32_t choice_;
};

}  // namespace talon
