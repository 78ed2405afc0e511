#include "backend/cpu/packed_weight.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/block_decoders.h"
#include "backend/cpu/test_matrices.h"
#include "core/error.h"

namespace talon::cpu::packed_weight_test {
namespace {

struct Packer {
  HugeArena arena;
  ThreadPool pool{2, false};

  std::unique_ptr<PackedWeight> operator()(const StoredMatrix& matrix,
                                           WeightLayout layout = WeightLayout::as_stored) {
    return pack(matrix, layout, arena, pool);
  }
};

std::vector<float> unpacked(const PackedWeight& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.rows) *
                            static_cast<std::size_t>(weight.cols));
  for (int row = 0; row < weight.rows; ++row) {
    unpack_row(weight, row,
               std::span(values).subspan(static_cast<std::size_t>(row * weight.cols),
                                         static_cast<std::size_t>(weight.cols)));
  }
  return values;
}

TEST(PackedWeight, EveryTypeKeepsItsValuesBitForBit) {
  Packer packer;
  const auto check = [&](const TestMatrix& matrix) {
    const auto weight = packer(matrix.stored);
    EXPECT_TRUE(weight->exact);
    const auto expected = values_of(matrix);
    const auto got = unpacked(*weight);
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), 4 * got.size()), 0) << matrix.stored.name;
  };
  for (const StorageType type : kBlockTypes) check(random_matrix(type, 19, 768, 1));
  for (const StorageType type : kFloatTypes) check(random_matrix(type, 19, 77, 2));
}

TEST(PackedWeight, CodesAreWithinTheRangeOfTheirKind) {
  for (const StorageType type : kBlockTypes) {
    const BlockRecipe& recipe = *recipe_for(type);
    const CodeRange range = code_range(recipe.kind);
    const TestMatrix matrix = random_matrix(type, 64, 512, 4);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(matrix.bytes.data());
    for (std::size_t at = 0; at < matrix.bytes.size(); at += block_shape(type).bytes) {
      DecodedBlock decoded;
      recipe.decode(bytes + at, decoded);
      for (std::size_t i = 0; i < block_shape(type).elements; ++i) {
        ASSERT_GE(decoded.code[i], range.least) << matrix.stored.name;
        ASSERT_LE(decoded.code[i], range.largest) << matrix.stored.name;
      }
    }
  }
}

TEST(PackedWeight, TakesNoMoreMemoryThanItsLayoutSays) {
  Packer packer;
  const auto bits_of = [&](StorageType type) {
    const TestMatrix matrix = random_matrix(type, 64, 512, 3);
    return 8.0 * static_cast<double>(packer(matrix.stored)->bytes) / (64 * 512);
  };
  EXPECT_DOUBLE_EQ(bits_of(StorageType::q4_0), 4.5);
  EXPECT_DOUBLE_EQ(bits_of(StorageType::q4_1), 5.0);
  EXPECT_DOUBLE_EQ(bits_of(StorageType::q8_0), 8.5);
  EXPECT_DOUBLE_EQ(bits_of(StorageType::iq2_xxs), 4.375);
  EXPECT_DOUBLE_EQ(bits_of(StorageType::q4_k), 4.625);
  EXPECT_DOUBLE_EQ(bits_of(StorageType::q6_k), 8.625);
  EXPECT_DOUBLE_EQ(bits_of(StorageType::bf16), 16);
}

TEST(PackedWeight, FloatsThatAreBf16ValuesAreKeptAsSuch) {
  Packer packer;
  TestMatrix matrix = random_matrix(StorageType::f32, 20, 33, 4);
  EXPECT_EQ(packer(matrix.stored)->kind, TileKind::f32);
  for (std::size_t i = 0; i < matrix.bytes.size(); i += 4) {
    matrix.bytes[i] = matrix.bytes[i + 1] = std::byte{0};
  }
  const auto weight = packer(matrix.stored);
  EXPECT_EQ(weight->kind, TileKind::bf16);
  EXPECT_TRUE(weight->exact);
  EXPECT_EQ(unpacked(*weight), values_of(matrix));
}

TEST(PackedWeight, RowsComeInTheOrderAskedFor) {
  Packer packer;
  TestMatrix matrix = random_matrix(StorageType::q8_0, 3, 32, 5);
  const auto plain = unpacked(*packer(matrix.stored));
  const std::int32_t order[] = {2, 0, 1};
  matrix.stored.row_order = order;
  const auto ordered = unpacked(*packer(matrix.stored));
  for (int row = 0; row < 3; ++row) {
    EXPECT_EQ(std::memcmp(&ordered[static_cast<std::size_t>(row) * 32],
                          &plain[static_cast<std::size_t>(order[row]) * 32], 128),
              0);
  }
}

TEST(PackedWeight, RequestedLayoutsRoundByAtMostHalfAStep) {
  Packer packer;
  const TestMatrix matrix = random_matrix(StorageType::f32, 20, 75, 6);
  const auto values = values_of(matrix);
  const auto largest_error = [&](WeightLayout layout) {
    const auto weight = packer(matrix.stored, layout);
    EXPECT_EQ(weight->exact, layout == WeightLayout::f32);
    const auto got = unpacked(*weight);
    float largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::fabs(got[i] - values[i]));
    }
    return largest;
  };
  // Normal values of deviation 0.05: the largest of a group is below 0.25.
  EXPECT_EQ(largest_error(WeightLayout::f32), 0.0F);
  EXPECT_LT(largest_error(WeightLayout::bf16), 0.25F / 256);
  EXPECT_LT(largest_error(WeightLayout::int8), 0.55F * 0.25F / 127);
  EXPECT_LT(largest_error(WeightLayout::int4), 0.55F * 0.5F / 15);
}

TEST(PackedWeight, ValuesThatAreNotFiniteAreRefusedByName) {
  Packer packer;
  for (const StorageType type : {StorageType::q4_1, StorageType::q6_k, StorageType::f16}) {
    TestMatrix matrix = random_matrix(type, 4, 256, 7);
    const std::uint16_t infinity = 0x7C00;
    std::memcpy(matrix.bytes.data() + half_fields(type).back(), &infinity, 2);
    try {
      packer(matrix.stored);
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(matrix.stored.name), std::string::npos);
    }
  }
}

TEST(PackedWeight, BytesThatAreNotThoseOfTheShapeAreRefused) {
  Packer packer;
  TestMatrix matrix = random_matrix(StorageType::q4_1, 4, 64, 8);
  matrix.stored.rows = 5;
  EXPECT_THROW(packer(matrix.stored), Error);
  matrix.stored.rows = 4;
  matrix.stored.cols = 65;
  EXPECT_THROW(packer(matrix.stored), Error);
  const TestMatrix wide = random_matrix(StorageType::q8_0, 1, kMostInputs + 32, 8);
  EXPECT_THROW(packer(wide.stored), Error);
}

}  // namespace
}  // namespace talon::cpu::packed_weight_test
