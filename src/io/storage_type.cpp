#include "io/storage_type.h"

#include "core/error.h"

namespace talon {

std::string_view name_of(StorageType type) {
  switch (type) {
    case StorageType::f32:
      return "f32";
    case StorageType::f16:
      return "f16";
    case StorageType::bf16:
      return "bf16";
    case StorageType::f64:
      return "f64";
    case StorageType::i8:
      return "i8";
    case StorageType::u8:
      return "u8";
    case StorageType::i16:
      return "i16";
    case StorageType::i32:
      return "i32";
    case StorageType::i64:
      return "i64";
    case StorageType::boolean:
      return "boolean";
    case StorageType::q8_0:
      return "q8_0";
    case StorageType::q4_0:
      return "q4_0";
    case StorageType::q4_1:
      return "q4_1";
    case StorageType::q5_0:
      return "q5_0";
    case StorageType::q5_1:
      return "q5_1";
    case StorageType::q2_k:
      return "q2_k";
    case StorageType::q3_k:
      return "q3_k";
    case StorageType::q4_k:
      return "q4_k";
    case StorageType::q5_k:
      return "q5_k";
    case StorageType::q6_k:
      return "q6_k";
    case StorageType::iq4_nl:
      return "iq4_nl";
    case StorageType::iq4_xs:
      return "iq4_xs";
    case StorageType::iq2_xxs:
      return "iq2_xxs";
    case StorageType::mxfp4:
      return "mxfp4";
    case StorageType::iq1_s:
      return "iq1_s";
    case StorageType::iq1_m:
      return "iq1_m";
    case StorageType::iq2_xs:
      return "iq2_xs";
    case StorageType::iq2_s:
      return "iq2_s";
    case StorageType::iq3_xxs:
      return "iq3_xxs";
    case StorageType::iq3_s:
      return "iq3_s";
    case StorageType::tq1_0:
      return "tq1_0";
    case StorageType::tq2_0:
      return "tq2_0";
    case StorageType::nvfp4:
      return "nvfp4";
    case StorageType::f8_e4m3:
      return "f8_e4m3";
  }
  throw Bug("name_of: not a storage type");
}

BlockShape block_shape(StorageType type) {
  switch (type) {
    case StorageType::i8:
    case StorageType::u8:
    case StorageType::boolean:
    case StorageType::f8_e4m3:
      return {1, 1};
    case StorageType::f16:
    case StorageType::bf16:
    case StorageType::i16:
      return {1, 2};
    case StorageType::f32:
    case StorageType::i32:
      return {1, 4};
    case StorageType::f64:
    case StorageType::i64:
      return {1, 8};
    case StorageType::q8_0:
      return {32, 34};
    case StorageType::q4_0:
      return {32, 18};
    case StorageType::q4_1:
      return {32, 20};
    case StorageType::q5_0:
      return {32, 22};
    case StorageType::q5_1:
      return {32, 24};
    case StorageType::iq4_nl:
      return {32, 18};
    case StorageType::mxfp4:
      return {32, 17};
    case StorageType::q2_k:
      return {256, 84};
    case StorageType::q3_k:
      return {256, 110};
    case StorageType::q4_k:
      return {256, 144};
    case StorageType::q5_k:
      return {256, 176};
    case StorageType::q6_k:
      return {256, 210};
    case StorageType::iq4_xs:
      return {256, 136};
    case StorageType::iq2_xxs:
      return {256, 66};
    case StorageType::iq1_s:
      return {256, 50};
    case StorageType::iq1_m:
      return {256, 56};
    case StorageType::iq2_xs:
      return {256, 74};
    case StorageType::iq2_s:
      return {256, 82};
    case StorageType::iq3_xxs:
      return {256, 98};
    case StorageType::iq3_s:
      return {256, 110};
    case StorageType::tq1_0:
      return {256, 54};
    case StorageType::tq2_0:
      return {256, 66};
    case StorageType::nvfp4:
      return {64, 36};
  }
  throw Bug("block_shape: not a storage type");
}

}  // namespace talon
