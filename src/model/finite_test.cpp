#include "model/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace talon::finite_test {
namespace {

constexpr StorageType kTypes[] = {
    StorageType::f32,     StorageType::f16,     StorageType::bf16,   StorageType::f64,
    StorageType::q8_0,    StorageType::q4_0,    StorageType::q4_1,   StorageType::q5_0,
    StorageType::q5_1,    StorageType::q2_k,    StorageType::q3_k,   StorageType::q4_k,
    StorageType::q5_k,    StorageType::q6_k,    StorageType::iq4_nl, StorageType::iq4_xs,
    StorageType::iq2_xxs, StorageType::iq1_s,   StorageType::iq1_m,  StorageType::iq2_xs,
    StorageType::iq2_s,   StorageType::iq3_xxs, StorageType::iq3_s,  StorageType::tq1_0,
    StorageType::tq2_0};

bool dequantises_to_finite(StorageType type, std::span<const std::byte> block) {
  std::vector<float> values(block_shape(type).elements);
  dequantize(type, block, values);
  for (const float value : values) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

TEST(FindNotFinite, SaysOfEveryTypeWhatDequantisingSays) {
  ThreadPool pool(2, /*pin=*/false);
  for (const StorageType type : kTypes) {
    const std::size_t bytes = block_shape(type).bytes;
    int bad = 0;
    // Every 16-bit place of a block in turn holds what would be NaN in binary16, then in bfloat16.
    for (std::size_t at = 0; at + 2 <= bytes; at += 2) {
      for (const std::uint16_t bits : {0x7E00, 0xFC00, 0x7F80, 0xFFFF}) {
        std::vector<std::byte> block(bytes, std::byte{0x11});
        std::memcpy(block.data() + at, &bits, sizeof(bits));
        const bool finite = dequantises_to_finite(type, block);
        EXPECT_EQ(!find_not_finite(type, block, pool), finite) << name_of(type) << " byte " << at;
        bad += !finite;
      }
    }
    // The scale of iq1_m is spread over four words.
    EXPECT_EQ(bad > 0, type != StorageType::iq1_m) << name_of(type);
  }
  std::vector<std::byte> spread(block_shape(StorageType::iq1_m).bytes, std::byte{0x11});
  spread[53] = std::byte{0xC1};
  spread[55] = std::byte{0x71};
  EXPECT_FALSE(dequantises_to_finite(StorageType::iq1_m, spread));
  EXPECT_TRUE(find_not_finite(StorageType::iq1_m, spread, pool));
}

TEST(FindNotFinite, SaysWhere) {
  ThreadPool pool(2, /*pin=*/false);
  for (const std::size_t count : {100'000U, 1'000'000U}) {  // looked at by one thread, by all
    std::vector<float> values(count, 1.5F);
    EXPECT_FALSE(find_not_finite(StorageType::f32, std::as_bytes(std::span(values)), pool));
    values[70'001] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(find_not_finite(StorageType::f32, std::as_bytes(std::span(values)), pool), 70'001U);
  }
}

}  // namespace
}  // namespace talon::finite_test
