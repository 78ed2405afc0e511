#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "io/mapped_file.h"
#include "io/quant/quant_tables.h"
#include "io/storage_type.h"

namespace talon {

void PrintTo(StorageType type, std::ostream* out) { *out << name_of(type); }

}  // namespace talon

namespace talon::dequantize_test {
namespace {

constexpr StorageType kBlockTypes[] = {
    StorageType::f16,     StorageType::bf16,   StorageType::q8_0,    StorageType::q4_0,
    StorageType::q4_1,    StorageType::q5_0,   StorageType::q5_1,    StorageType::q2_k,
    StorageType::q3_k,    StorageType::q4_k,   StorageType::q5_k,    StorageType::q6_k,
    StorageType::iq4_nl,  StorageType::iq4_xs, StorageType::iq2_xxs, StorageType::mxfp4,
    StorageType::iq1_s,   StorageType::iq1_m,  StorageType::iq2_xs,  StorageType::iq2_s,
    StorageType::iq3_xxs, StorageType::iq3_s,  StorageType::tq1_0,   StorageType::tq2_0,
    StorageType::nvfp4};

class DequantizeTest : public testing::TestWithParam<StorageType> {};

// The files are made by tests/data/io/make_dequantize.py with gguf.quants.dequantize.
TEST_P(DequantizeTest, GivesTheBitsOfTheReferenceImplementation) {
  const StorageType type = GetParam();
  const MappedFile file(std::string(TALON_TEST_DATA "/io/dequantize/") +
                        std::string(name_of(type)) + ".bin");
  const auto bytes = file.bytes();
  std::uint32_t blocks = 0;
  std::memcpy(&blocks, bytes.data(), sizeof(blocks));
  const BlockShape shape = block_shape(type);
  ASSERT_EQ(bytes.size(), 4 + blocks * (shape.bytes + shape.elements * sizeof(float)));
  std::vector<float> expected(blocks * shape.elements);
  std::memcpy(expected.data(), bytes.data() + 4 + blocks * shape.bytes,
              expected.size() * sizeof(float));

  std::vector<float> values(expected.size());
  dequantize(type, bytes.subspan(4, blocks * shape.bytes), values);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(values[i]) == std::bit_cast<std::uint32_t>(expected[i])) {
      continue;
    }
    if (std::isnan(values[i]) && std::isnan(expected[i])) continue;
    if (wrong++ == 0) {
      ADD_FAILURE() << name_of(type) << " value " << i << ": expected " << expected[i] << ", got "
                    << values[i];
    }
  }
  EXPECT_EQ(wrong, 0u);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, DequantizeTest, testing::ValuesIn(kBlockTypes),
                         [](const auto& test) { return std::string(name_of(test.param)); });

template <typename T>
float dequantize_one(StorageType type, T value) {
  float out = 0;
  dequantize(type, std::as_bytes(std::span(&value, 1)), {&out, 1});
  return out;
}

TEST(Dequantize, RoundsPlainNumbersToTheNearestFloat) {
  EXPECT_EQ(dequantize_one(StorageType::f32, 1.5f), 1.5f);
  EXPECT_EQ(dequantize_one(StorageType::f64, 1.0 + 0x1p-24), 1.0f);
  EXPECT_EQ(dequantize_one(StorageType::f64, 1.0 + 0x1.8p-23), 1.0f + 0x1p-22f);
  EXPECT_EQ(dequantize_one(StorageType::i8, std::int8_t{-128}), -128.0f);
  EXPECT_EQ(dequantize_one(StorageType::u8, std::uint8_t{255}), 255.0f);
  EXPECT_EQ(dequantize_one(StorageType::i16, std::int16_t{-32768}), -32768.0f);
  EXPECT_EQ(dequantize_one(StorageType::i32, std::int32_t{-2147483647 - 1}), -0x1p31f);
  EXPECT_EQ(dequantize_one(StorageType::i64, std::int64_t{16777217}), 16777216.0f);
  EXPECT_EQ(dequantize_one(StorageType::i64, std::int64_t{16777219}), 16777220.0f);
  EXPECT_EQ(dequantize_one(StorageType::boolean, std::uint8_t{2}), 1.0f);
  EXPECT_EQ(dequantize_one(StorageType::boolean, std::uint8_t{0}), 0.0f);
}

TEST(Dequantize, RefusesHalfABlock) {
  std::vector<std::byte> bytes(34);
  std::vector<float> out(31);
  EXPECT_THROW(dequantize(StorageType::q8_0, bytes, out), Bug);
  out.resize(64);
  EXPECT_THROW(dequantize(StorageType::q8_0, bytes, out), Bug);
  dequantize(StorageType::q8_0, {}, {});
}

TEST(QuantTables, SignFieldsHaveAnEvenNumberOfMinuses) {
  for (std::uint32_t field = 0; field < 128; ++field) {
    EXPECT_EQ(std::popcount(iq2_signs(field)) % 2, 0);
    EXPECT_EQ(iq2_signs(field) & 127u, field);
  }
}

}  // namespace
}  // namespace talon::dequantize_test
