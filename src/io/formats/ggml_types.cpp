#include "io/formats/ggml_types.h"

namespace talon {
namespace {

struct Number {
  std::uint32_t ggml;
  StorageType type;
};

constexpr Number kNumbers[] = {
    {0, StorageType::f32},      {1, StorageType::f16},     {2, StorageType::q4_0},
    {3, StorageType::q4_1},     {6, StorageType::q5_0},    {7, StorageType::q5_1},
    {8, StorageType::q8_0},     {10, StorageType::q2_k},   {11, StorageType::q3_k},
    {12, StorageType::q4_k},    {13, StorageType::q5_k},   {14, StorageType::q6_k},
    {16, StorageType::iq2_xxs}, {17, StorageType::iq2_xs}, {18, StorageType::iq3_xxs},
    {19, StorageType::iq1_s},   {20, StorageType::iq4_nl}, {21, StorageType::iq3_s},
    {22, StorageType::iq2_s},   {23, StorageType::iq4_xs}, {24, StorageType::i8},
    {25, StorageType::i16},     {26, StorageType::i32},    {27, StorageType::i64},
    {28, StorageType::f64},     {29, StorageType::iq1_m},  {30, StorageType::bf16},
    {34, StorageType::tq1_0},   {35, StorageType::tq2_0},  {39, StorageType::mxfp4},
    {40, StorageType::nvfp4},
};

}  // namespace

std::optional<StorageType> type_of_ggml(std::uint32_t number) {
  for (const Number& known : kNumbers) {
    if (known.ggml == number) return known.type;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> ggml_type_of(StorageType type) {
  for (const Number& known : kNumbers) {
    if (known.type == type) return known.ggml;
  }
  return std::nullopt;
}

}  // namespace talon
