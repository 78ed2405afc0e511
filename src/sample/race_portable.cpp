#include <limits>

#include "sample/race_loop.h"
#include "sample/race_units.h"

namespace talon::sample {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

/// Philox4x32-10 of 16 blocks side by side, as core/philox.h says it.
void group_words(const WordStream& stream, int group, std::uint32_t* words) {
  constexpr int kBlocks = 16;
  for (int lane = 0; lane < kBlocks; ++lane) {
    std::uint64_t c0 = stream.counter[0], c1 = stream.counter[1], c3 = stream.counter[3];
    std::uint64_t c2 = stream.counter[2] | static_cast<std::uint32_t>(kBlocks * group + lane);
    std::uint32_t low = stream.key[0], high = stream.key[1];
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * c0;
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * c2;
      c0 = (product1 >> 32) ^ c1 ^ low;
      c2 = (product0 >> 32) ^ c3 ^ high;
      c1 = static_cast<std::uint32_t>(product1);
      c3 = static_cast<std::uint32_t>(product0);
      low += 0x9E3779B9U;
      high += 0xBB67AE85U;
    }
    words[lane] = static_cast<std::uint32_t>(c0);
    words[kBlocks + lane] = static_cast<std::uint32_t>(c1);
    words[2 * kBlocks + lane] = static_cast<std::uint32_t>(c2);
    words[3 * kBlocks + lane] = static_cast<std::uint32_t>(c3);
  }
}

/// What a token misses the bound by, in log2; at most 0 for survivors. Of a word the upper 24 bits
/// count: a float holds them exactly, and less than the whole word is still a bound.
float lateness(const RaceTrack& track, float most, std::uint32_t word, float logit) {
  const auto upper = static_cast<float>(static_cast<std::int32_t>(word >> 8));
  const auto bits = static_cast<float>(__builtin_bit_cast(std::int32_t, upper));
  return bits * 0x1p-23F + 8.0F - (logit - track.largest) * track.scale - most;
}

}  // namespace

LargestLogit largest_portable(const float* logits, int count) {
  constexpr int kLanes = 8;  // a chain of comparisons each waits for the one before
  float lanes[kLanes];
  std::int32_t nan[kLanes] = {};
  for (float& lane : lanes) lane = kNone;
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float x = logits[i + lane];
      nan[lane] |= x != x;
      lanes[lane] = x > lanes[lane] ? x : lanes[lane];
    }
  }
  for (; i < count; ++i) {
    nan[0] |= logits[i] != logits[i];
    lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  }
  LargestLogit best{kNone, 0, false};
  for (int lane = 0; lane < kLanes; ++lane) {
    best.value = lanes[lane] > best.value ? lanes[lane] : best.value;
    best.has_nan |= nan[lane] != 0;
  }
  while (best.index + 1 < count && logits[best.index] != best.value) ++best.index;
  return best;
}

int rank_portable(const float* logits, int count, int token) {
  return rank_loop(logits, count, token);
}

int next_survivor_portable(const RaceTrack& track, float bound, int begin) {
  const float most = with_room(bound) + 159.0F;
  std::uint32_t words[kWordGroup];
  for (int group = begin / kWordGroup; group * kWordGroup < track.count; ++group) {
    group_words(track.high, group, words);
    const int first = group * kWordGroup;
    const int end = track.count - first < kWordGroup ? track.count - first : kWordGroup;
    std::int32_t survivors = 0;
    for (int i = 0; i < end; ++i) {
      survivors |= lateness(track, most, words[i], track.logits[first + i]) <= 0;
    }
    if (survivors == 0) continue;
    for (int i = begin > first ? begin - first : 0; i < end; ++i) {
      if (lateness(track, most, words[i], track.logits[first + i]) <= 0) return first + i;
    }
  }
  return track.count;
}

void words_portable(const WordStream& stream, int first_group, int groups, std::uint32_t* words) {
  for (int group = 0; group < groups; ++group) {
    group_words(stream, first_group + group, words + kWordGroup * group);
  }
}

void gumbel_portable(const std::uint32_t* words, int count, float scale, float* noise) {
  gumbel_loop(words, count, scale, noise);
}

}  // namespace talon::sample
