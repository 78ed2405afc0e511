#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/philox.h"

namespace talon {

/// A row of logits with what a race over it needs (race.h).
struct RaceTrack {
  WordStream high;  // the tokens' high words
  const float* logits = nullptr;
  int count = 0;
  float largest = 0;  // what logits count from; finite
  float scale = 0;    // log2(e) / temperature
};

struct LargestLogit {
  float value = 0;  // -infinity if there is none
  int index = 0;    // of the first token that has it
  bool has_nan = false;
};

/// Where token i's word stands among the blocks of a stream: with 16 blocks side by side in lanes,
/// words come out in the order of tokens.
constexpr std::uint32_t block_of_word(std::uint32_t token) { return token / 64 * 16 + token % 16; }
constexpr std::uint32_t word_in_block(std::uint32_t token) { return token % 64 / 16; }
constexpr int kWordGroup = 64;  // tokens whose words 16 neighbouring blocks hold

/// What a race does with whole rows, in the instructions of one set. The sets differ in speed and
/// in which survivors they let through, never in who wins.
struct RaceKernels {
  std::string_view instructions;
  bool supported = false;  // by this processor and system
  LargestLogit (*largest)(const float* logits, int count) = nullptr;
  /// How many tokens come before `token` by descending logits, of equal ones the smaller first.
  int (*rank)(const float* logits, int count, int token) = nullptr;
  /// The first token from `begin` on that may have a time of at most 2^bound: every such token is a
  /// survivor, and few others are. `count` when there is none.
  int (*next_survivor)(const RaceTrack& track, float bound, int begin) = nullptr;
  /// The high words of the 64 * groups tokens from 64 * first_group on.
  void (*words)(const WordStream& stream, int first_group, int groups,
                std::uint32_t* words) = nullptr;
  /// noise[i] = scale * -ln(-ln(1 - v)) with v from words[i] alone, to about 1e-5.
  void (*gumbel)(const std::uint32_t* words, int count, float scale, float* noise) = nullptr;
};
/// Best first; the last is always supported.
std::span<const RaceKernels> race_kernels();
/// The best that this processor supports.
const RaceKernels& best_race_kernels();

}  // namespace talon
