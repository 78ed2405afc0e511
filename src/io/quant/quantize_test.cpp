#include "io/quant/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "io/storage_type.h"

namespace talon::quantize_test {
namespace {

std::vector<float> round_trip(const std::vector<float>& values) {
  std::vector<float> read(values.size());
  dequantize(StorageType::q8_0, quantize_q8_0(values), read);
  return read;
}

TEST(QuantizeQ8, IsWithinHalfAStepOfEveryValue) {
  std::vector<float> values(4 * 32);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i * i)) * std::exp2(static_cast<float>(i / 32));
  const std::vector<float> read = round_trip(values);
  for (std::size_t block = 0; block < values.size(); block += 32) {
    float largest = 0;
    for (std::size_t i = block; i < block + 32; ++i)
      largest = std::max(largest, std::abs(values[i]));
    const float step = largest / 127;
    // The scale is an f16: 2^-11 of it beside half a step, at 127 steps.
    for (std::size_t i = block; i < block + 32; ++i)
      EXPECT_NEAR(read[i], values[i], 0.5F * step + largest / 2048) << i;
  }
}

TEST(QuantizeQ8, GivesTheBytesOfItsDefinition) {
  std::vector<float> values(32);
  values[0] = 127;
  values[1] = -2.5F;  // halves away from zero
  values[31] = 1.4F;
  const std::vector<std::byte> bytes = quantize_q8_0(values);
  ASSERT_EQ(bytes.size(), 34u);
  EXPECT_EQ(bytes[0], std::byte{0x00});  // 1.0 as f16
  EXPECT_EQ(bytes[1], std::byte{0x3C});
  EXPECT_EQ(static_cast<std::int8_t>(bytes[2]), 127);
  EXPECT_EQ(static_cast<std::int8_t>(bytes[3]), -3);
  EXPECT_EQ(static_cast<std::int8_t>(bytes[33]), 1);
}

TEST(QuantizeQ8, KeepsZeros) {
  EXPECT_EQ(round_trip(std::vector<float>(32)), std::vector<float>(32));
}

}  // namespace
}  // namespace talon::quantize_test
