#include <immintrin.h>

#include <limits>

#include "sample/race_loop.h"
#include "sample/race_units.h"

namespace talon::sample {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

struct Keys {
  __m512i round[10][2];
};

Keys keys_of(const WordStream& stream) {
  Keys keys;
  std::uint32_t low = stream.key[0], high = stream.key[1];
  for (auto& round : keys.round) {
    round[0] = _mm512_set1_epi64(low);
    round[1] = _mm512_set1_epi64(high);
    low += 0x9E3779B9U;
    high += 0xBB67AE85U;
  }
  return keys;
}

struct GroupWords {
  __m512i word[4];  // of 16 neighbouring blocks: the words of 64 tokens in order
};

/// Philox4x32-10 of 16 blocks, one in each lane of 64 bits. Only the low halves of lanes count: the
/// multiplication does not look at the others.
GroupWords words_of(const WordStream& stream, const Keys& keys, int group) {
  constexpr int kXor3 = 0x96;
  const __m512i multiplier0 = _mm512_set1_epi64(0xD2511F53U);
  const __m512i multiplier1 = _mm512_set1_epi64(0xCD9E8D57U);
  const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  const auto first = static_cast<long long>(stream.counter[2]) + 16LL * group;
  __m512i c0[2], c1[2], c2[2], c3[2];
  for (int half = 0; half < 2; ++half) {
    c0[half] = _mm512_set1_epi64(stream.counter[0]);
    c1[half] = _mm512_set1_epi64(stream.counter[1]);
    c2[half] = _mm512_add_epi64(lanes, _mm512_set1_epi64(first + 8 * half));
    c3[half] = _mm512_set1_epi64(stream.counter[3]);
  }
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m512i product0 = _mm512_mul_epu32(multiplier0, c0[half]);
      const __m512i product1 = _mm512_mul_epu32(multiplier1, c2[half]);
      c0[half] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product1, 32), c1[half],
                                           keys.round[round][0], kXor3);
      c2[half] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product0, 32), c3[half],
                                           keys.round[round][1], kXor3);
      c1[half] = product1;
      c3[half] = product0;
    }
  }
  const __m512i low_halves =
      _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const auto join = [&](const __m512i* halves) {
    return _mm512_permutex2var_epi32(halves[0], low_halves, halves[1]);
  };
  return {{join(c0), join(c1), join(c2), join(c3)}};
}

/// Those of 64 tokens that may be early enough.
struct Filter {
  __m512 largest, scale, most;

  std::uint64_t survivors(const GroupWords& words, const float* logits) const {
    std::uint64_t mask = 0;
    for (int i = 0; i < 4; ++i) {
      const __m512 word = _mm512_cvtepu32_ps(words.word[i]);
      const __m512 log2_of_word = _mm512_cvtepi32_ps(_mm512_castps_si512(word));  // times 2^23
      const __m512 logit = _mm512_loadu_ps(logits + 16 * i);
      const __m512 share = _mm512_mul_ps(_mm512_sub_ps(logit, largest), scale);
      const __m512 least = _mm512_fmsub_ps(log2_of_word, _mm512_set1_ps(0x1p-23F), share);
      const __mmask16 may_win = _mm512_cmp_ps_mask(least, most, _CMP_LE_OQ);
      mask |= static_cast<std::uint64_t>(may_win) << (16 * i);
    }
    return mask;
  }
};

}  // namespace

LargestLogit largest_avx512(const float* logits, int count) {
  constexpr int kPart = 4096;
  LargestLogit best{kNone, 0, false};
  int best_part = 0;
  for (int begin = 0; begin < count; begin += kPart) {
    const int end = count - begin < kPart ? count : begin + kPart;
    __m512 largest[2] = {_mm512_set1_ps(kNone), _mm512_set1_ps(kNone)};
    __mmask16 nan = 0;
    int i = begin;
    for (; i + 32 <= end; i += 32) {
      for (int j = 0; j < 2; ++j) {
        const __m512 x = _mm512_loadu_ps(logits + i + 16 * j);
        nan = static_cast<__mmask16>(nan | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q));
        largest[j] = _mm512_max_ps(x, largest[j]);
      }
    }
    for (; i < end; i += 16) {
      const int left = end - i;
      const auto valid = static_cast<__mmask16>(left >= 16 ? 0xFFFF : (1 << left) - 1);
      const __m512 x = _mm512_mask_loadu_ps(_mm512_set1_ps(kNone), valid, logits + i);
      nan = static_cast<__mmask16>(nan | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q));
      largest[0] = _mm512_max_ps(x, largest[0]);
    }
    best.has_nan |= nan != 0;
    const float value = _mm512_reduce_max_ps(_mm512_max_ps(largest[0], largest[1]));
    if (!(value > best.value)) continue;
    best.value = value;
    best_part = begin;
  }
  best.index = best_part;
  while (best.index + 1 < count && logits[best.index] != best.value) ++best.index;
  return best;
}

int rank_avx512(const float* logits, int count, int token) {
  return rank_loop(logits, count, token);
}

int next_survivor_avx512(const RaceTrack& track, float bound, int begin) {
  const Keys keys = keys_of(track.high);
  const Filter filter{_mm512_set1_ps(track.largest), _mm512_set1_ps(track.scale),
                      _mm512_set1_ps(with_room(bound) + 159.0F)};
  int group = begin / kWordGroup;
  std::uint64_t wanted = ~std::uint64_t{0} << (begin % kWordGroup);
  const auto found = [&](std::uint64_t mask) {
    return kWordGroup * group + static_cast<int>(__builtin_ctzll(mask));
  };
  for (; (group + 1) * kWordGroup <= track.count; ++group) {
    const std::uint64_t mask =
        filter.survivors(words_of(track.high, keys, group), track.logits + kWordGroup * group) &
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
  const std::uint64_t mask = filter.survivors(words_of(track.high, keys, group), rest) & wanted;
  return mask != 0 ? found(mask) : track.count;
}

void words_avx512(const WordStream& stream, int first_group, int groups, std::uint32_t* words) {
  const Keys keys = keys_of(stream);
  for (int group = 0; group < groups; ++group, words += kWordGroup) {
    const GroupWords found = words_of(stream, keys, first_group + group);
    for (int i = 0; i < 4; ++i) _mm512_storeu_si512(words + 16 * i, found.word[i]);
  }
}

void gumbel_avx512(const std::uint32_t* words, int count, float scale, float* noise) {
  gumbel_loop(words, count, scale, noise);
}

}  // namespace talon::sample
