#include "io/quant/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
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

/// Values of several sizes.
std::vector<float> waves(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::sin(static_cast<float>(i * i)) * std::exp2(static_cast<float>(i / 32));
  return values;
}

TEST(QuantizeQ4, IsWithinHalfAStepOfEveryValue) {
  const std::vector<float> values = waves(4 * 32);
  std::vector<float> read(values.size());
  dequantize(StorageType::q4_1, quantize_q4_1(values), read);
  for (std::size_t block = 0; block < values.size(); block += 32) {
    const auto [least, largest] = std::minmax_element(&values[block], &values[block] + 32);
    const float step = (*largest - *least) / 15;
    // The minimum is an f16, as is the scale, at 15 steps.
    const float rounding = (std::abs(*least) + 15 * step) / 2048;
    for (std::size_t i = block; i < block + 32; ++i)
      EXPECT_NEAR(read[i], values[i], 0.5F * step + rounding) << i;
  }
}

TEST(QuantizeQ4, WhatHasSixteenStepsStaysAsItIs) {
  std::vector<float> values(2 * 32), read(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i < 32 ? -2 + 0.25F * static_cast<float>(i * 7 % 16) : 3;
  dequantize(StorageType::q4_1, quantize_q4_1(values), read);
  EXPECT_EQ(read, values);
}

TEST(QuantizeQ4, ValuesTooLargeForAnF16StayFinite) {
  std::vector<float> values(32), read(32);
  values[0] = -1e30F;
  values[1] = 1e30F;
  dequantize(StorageType::q4_1, quantize_q4_1(values), read);
  for (const float value : read) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace talon::quantize_test
