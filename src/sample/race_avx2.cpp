#include <immintrin.h>

#include <limits>

#include "sample/race_loop.h"
#include "sample/race_units.h"

namespace talon::sample {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

struct GroupWords {
  __m256i word[8];  // of 16 neighbouring blocks: the words of 64 tokens in order
};

/// The low halves of eight lanes of 64 bits, in order.
__m256i join(__m256i a, __m256i b) {
  const __m256 mixed = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88);
  return _mm256_permute4x64_epi64(_mm256_castps_si256(mixed), 0xD8);
}

/// Philox4x32-10 of 16 blocks, one in each lane of 64 bits. Only the low halves of lanes count: the
/// multiplication does not look at the others.
GroupWords words_of(const WordStream& stream, int group) {
  constexpr int kQuarters = 4;
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53U);
  const __m256i multiplier1 = _mm256_set1_epi64x(0xCD9E8D57U);
  const auto first = static_cast<long long>(stream.counter[2]) + 16LL * group;
  __m256i words[4][kQuarters];
  for (int quarter = 0; quarter < kQuarters; ++quarter) {
    __m256i c0 = _mm256_set1_epi64x(stream.counter[0]);
    __m256i c1 = _mm256_set1_epi64x(stream.counter[1]);
    __m256i c2 =
        _mm256_add_epi64(_mm256_set_epi64x(3, 2, 1, 0), _mm256_set1_epi64x(first + 4 * quarter));
    __m256i c3 = _mm256_set1_epi64x(stream.counter[3]);
    std::uint32_t low = stream.key[0], high = stream.key[1];
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const __m256i product0 = _mm256_mul_epu32(multiplier0, c0);
      const __m256i product1 = _mm256_mul_epu32(multiplier1, c2);
      c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), c1),
                            _mm256_set1_epi64x(low));
      c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), c3),
                            _mm256_set1_epi64x(high));
      c1 = product1;
      c3 = product0;
      low += 0x9E3779B9U;
      high += 0xBB67AE85U;
    }
    words[0][quarter] = c0;
    words[1][quarter] = c1;
    words[2][quarter] = c2;
    words[3][quarter] = c3;
  }
  GroupWords group_words;
  for (int i = 0; i < 8; ++i) {
    group_words.word[i] = join(words[i / 2][i % 2 * 2], words[i / 2][i % 2 * 2 + 1]);
  }
  return group_words;
}

/// Those of 64 tokens that may be early enough. Of a word the upper 24 bits count: a float holds
/// them exactly, and less than the whole word is still a bound.
std::uint64_t survivors(const RaceTrack& track, float most, const GroupWords& words,
                        const float* logits) {
  const __m256 largest = _mm256_set1_ps(track.largest), scale = _mm256_set1_ps(track.scale);
  const __m256 limit = _mm256_set1_ps(most - 8.0F);
  std::uint64_t mask = 0;
  for (int i = 0; i < 8; ++i) {
    const __m256 word = _mm256_cvtepi32_ps(_mm256_srli_epi32(words.word[i], 8));
    const __m256 log2_of_word =
        _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_castps_si256(word)), _mm256_set1_ps(0x1p-23F));
    const __m256 logit = _mm256_loadu_ps(logits + 8 * i);
    const __m256 share = _mm256_mul_ps(_mm256_sub_ps(logit, largest), scale);
    const __m256 may_win = _mm256_cmp_ps(_mm256_sub_ps(log2_of_word, share), limit, _CMP_LE_OQ);
    mask |= static_cast<std::uint64_t>(_mm256_movemask_ps(may_win)) << (8 * i);
  }
  return mask;
}

}  // namespace

LargestLogit largest_avx2(const float* logits, int count) {
  constexpr int kPart = 4096;
  LargestLogit best{kNone, 0, false};
  int best_part = 0;
  for (int begin = 0; begin < count; begin += kPart) {
    const int end = count - begin < kPart ? count : begin + kPart;
    __m256 largest = _mm256_set1_ps(kNone), nan = _mm256_setzero_ps();
    int i = begin;
    for (; i + 8 <= end; i += 8) {
      const __m256 x = _mm256_loadu_ps(logits + i);
      nan = _mm256_or_ps(nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
      largest = _mm256_max_ps(x, largest);
    }
    float lanes[8], value = kNone;
    _mm256_storeu_ps(lanes, largest);
    for (const float lane : lanes) value = lane > value ? lane : value;
    for (; i < end; ++i) {
      best.has_nan |= logits[i] != logits[i];
      value = logits[i] > value ? logits[i] : value;
    }
    best.has_nan |= _mm256_movemask_ps(nan) != 0;
    if (!(value > best.value)) continue;
    best.value = value;
    best_part = begin;
  }
  best.index = best_part;
  while (best.index + 1 < count && logits[best.index] != best.value) ++best.index;
  return best;
}

int rank_avx2(const float* logits, int count, int token) { return rank_loop(logits, count, token); }

int next_survivor_avx2(const RaceTrack& track, float bound, int begin) {
  const float most = with_room(bound) + 159.0F;
  int group = begin / kWordGroup;
  std::uint64_t wanted = ~std::uint64_t{0} << (begin % kWordGroup);
  const auto found = [&](std::uint64_t mask) {
    return kWordGroup * group + static_cast<int>(__builtin_ctzll(mask));
  };
  for (; (group + 1) * kWordGroup <= track.count; ++group) {
    const std::uint64_t mask =
        survivors(track, most, words_of(track.high, group), track.logits + kWordGroup * group) &
        wanted;
    if (mask != 0) return found(mask);
    wanted = ~std::uint64_t{0};
  }
  if (group * kWordGroup >= track.count) return track.count;
  float rest[kWordGroup];
  for (int i = 0; i < kWordGroup; ++i) {
    const int token = group * kWordGroup + i;
    rest[i] = token < track.count ? track.logits[token] : kNone;
  }
  const std::uint64_t mask = survivors(track, most, words_of(track.high, group), rest) & wanted;
  return mask != 0 ? found(mask) : track.count;
}

void words_avx2(const WordStream& stream, int first_group, int groups, std::uint32_t* words) {
  for (int group = 0; group < groups; ++group, words += kWordGroup) {
    const GroupWords found = words_of(stream, first_group + group);
    for (int i = 0; i < 8; ++i) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 8 * i), found.word[i]);
    }
  }
}

void gumbel_avx2(const std::uint32_t* words, int count, float scale, float* noise) {
  gumbel_loop(words, count, scale, noise);
}

}  // namespace talon::sample
