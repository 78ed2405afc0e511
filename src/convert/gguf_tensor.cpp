#include "convert/gguf_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/half.h"
#include "io/quant/quantize.h"
#include "io/quote.h"

namespace talon {
namespace {

/// Matrices that are read in float32, by their names.
constexpr std::array<std::string_view, 6> kFloatNames = {"ffn_gate_inp", "ssm_conv1d", "ssm_alpha",
                                                         "ssm_beta",     "ssm_ba",     "norm"};

bool may_be_rounded(const GgufTensor& tensor) {
  const auto has = [&](std::string_view part) {
    return tensor.name.find(part) != std::string::npos;
  };
  return tensor.shape.size() >= 2 && tensor.name.ends_with(".weight") &&
         std::ranges::none_of(kFloatNames, has);
}

/// Floats in a run of columns.
int run_of(const GgufTensor& tensor) {
  return static_cast<int>(tensor.shape.back()) / static_cast<int>(tensor.column_order.size());
}

/// The runs of a row in their order; a run is whole blocks.
void reorder(const GgufTensor& tensor, std::span<const std::byte> row,
             std::vector<std::byte>& out) {
  const std::size_t size = row.size() / tensor.column_order.size();
  out.resize(row.size());
  for (std::size_t i = 0; i < tensor.column_order.size(); ++i) {
    std::memcpy(&out[i * size], &row[static_cast<std::size_t>(tensor.column_order[i]) * size],
                size);
  }
}

template <typename Number, typename Round>
std::vector<std::byte> rounded(std::span<const float> values, const Round& round) {
  std::vector<std::byte> bytes(values.size() * sizeof(Number));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Number number = round(values[i]);
    std::memcpy(&bytes[i * sizeof(Number)], &number, sizeof(Number));
  }
  return bytes;
}

std::vector<std::byte> encoded(std::span<const float> values, StorageType type) {
  switch (type) {
    case StorageType::f32:
      return rounded<float>(values, [](float value) { return value; });
    case StorageType::f16:
      return rounded<std::uint16_t>(values, float_to_half);
    case StorageType::bf16:
      return rounded<std::uint16_t>(values, float_to_bf16);
    case StorageType::q8_0:
      return quantize_q8_0(values);
    default:
      break;
  }
  throw Bug("a type that values are brought into");
}

/// Scales of q8_0 are half floats, too.
void check_range(const GgufTensor& tensor, std::span<const float> values, StorageType type) {
  constexpr float kLargestHalf = 65504;
  if (type != StorageType::f16 && type != StorageType::q8_0) return;
  const float most = type == StorageType::f16 ? kLargestHalf : kLargestHalf * 127;
  for (const float value : values) {
    if (std::abs(value) <= most) continue;
    fail("convert {} to {}: expected values of at most {}, found {}", quote(tensor.name),
         name_of(type), most, value);
  }
}

/// Whether runs of columns that change places are no whole blocks.
bool cuts_blocks(const GgufTensor& tensor, StorageType type) {
  const auto block = static_cast<int>(block_shape(type).elements);
  return !tensor.column_order.empty() && run_of(tensor) % block != 0;
}

/// The smallest type that holds the values of both.
StorageType common_type(StorageType a, StorageType b) {
  if (a == b) return a;
  const auto is_whole = [](StorageType type) {
    return type == StorageType::q4_0 || type == StorageType::q8_0;
  };
  return is_whole(a) && is_whole(b) ? StorageType::q8_0 : StorageType::f32;
}

/// Products with a power of two are numbers of the same type, which has the exponents of float32.
StorageType product_type(const GgufTensor::Part& part) {
  const StorageType type = part.weight->type;
  int exponent = 0;
  const bool shifts = std::frexp(std::abs(part.factor), &exponent) == 0.5F;
  return part.factor == 1 || (type == StorageType::bf16 && shifts) ? type : StorageType::f32;
}

/// Blocks of q8_0 with the scales and the values of these of q4_0.
std::vector<std::byte> widened(std::span<const std::byte> blocks) {
  const BlockShape narrow = block_shape(StorageType::q4_0), wide = block_shape(StorageType::q8_0);
  constexpr std::size_t kScale = 2;  // bytes before the codes
  constexpr std::size_t kHalf = 16;  // inputs i and i + 16 share a byte
  std::vector<std::byte> out(blocks.size() / narrow.bytes * wide.bytes);
  const std::byte* from = blocks.data();
  for (std::byte* to = out.data(); to != out.data() + out.size(); to += wide.bytes) {
    std::memcpy(to, from, kScale);
    for (std::size_t i = 0; i < kHalf; ++i) {
      const int pair = std::to_integer<int>(from[kScale + i]);
      to[kScale + i] = static_cast<std::byte>((pair & 15) - 8);
      to[kScale + i + kHalf] = static_cast<std::byte>((pair >> 4) - 8);
    }
    from += narrow.bytes;
  }
  return out;
}

class RowWriter {
 public:
  RowWriter(const GgufTensor& tensor, StorageType type,
            const std::function<void(std::span<const std::byte>)>& take)
      : tensor_(tensor), type_(type), take_(take) {}

  void write(const GgufTensor::Part& part) {
    const KeptWeight& weight = *part.weight;
    const bool same = weight.type == type_ && tensor_.column_order.empty() && part.factor == 1;
    if (same && part.rows.empty() && weight.order.empty()) {
      take_(weight.from.first(static_cast<std::size_t>(weight.rows) * weight.row_bytes()));
      return;
    }
    const int count = part.rows.empty() ? weight.rows : static_cast<int>(part.rows.size());
    for (int i = 0; i < count; ++i) {
      const int index = part.rows.empty() ? i : part.rows[static_cast<std::size_t>(i)];
      write_row(weight, weight.row(index), part.factor);
    }
  }

 private:
  void write_row(const KeptWeight& weight, std::span<const std::byte> row, float factor) {
    const bool widens = weight.type == StorageType::q4_0 && type_ == StorageType::q8_0 &&
                        !cuts_blocks(tensor_, type_);
    if (factor == 1 && (weight.type == type_ || widens)) {
      if (!tensor_.column_order.empty()) {
        reorder(tensor_, row, reordered_);
        row = reordered_;
      }
      return widens ? take_(widened(row)) : take_(row);
    }
    values_.resize(static_cast<std::size_t>(weight.cols));
    dequantize(weight.type, row, values_);
    if (!tensor_.column_order.empty()) {
      reorder(tensor_, std::as_bytes(std::span(values_)), reordered_);
      std::memcpy(values_.data(), reordered_.data(), reordered_.size());
    }
    for (float& value : values_) value *= factor;
    check_range(tensor_, values_, type_);
    take_(encoded(values_, type_));
  }

  const GgufTensor& tensor_;
  StorageType type_;
  const std::function<void(std::span<const std::byte>)>& take_;
  std::vector<float> values_;
  std::vector<std::byte> reordered_;
};

}  // namespace

StorageType exact_type(const GgufTensor& tensor) {
  const KeptWeight& first = *tensor.parts.at(0).weight;
  if (first.stays_float) return StorageType::f32;
  StorageType type = product_type(tensor.parts[0]);
  for (const GgufTensor::Part& part : tensor.parts) type = common_type(type, product_type(part));
  return cuts_blocks(tensor, type) ? StorageType::f32 : type;
}

StorageType stored_type(const GgufTensor& tensor, std::optional<StorageType> asked) {
  if (!asked || !may_be_rounded(tensor)) return exact_type(tensor);
  const auto block = static_cast<std::int64_t>(block_shape(*asked).elements);
  return tensor.shape.back() % block == 0 ? *asked : StorageType::f16;
}

void for_each_piece(const GgufTensor& tensor, StorageType type,
                    const std::function<void(std::span<const std::byte>)>& take) {
  RowWriter writer(tensor, type, take);
  for (const GgufTensor::Part& part : tensor.parts) writer.write(part);
}

}  // namespace talon
