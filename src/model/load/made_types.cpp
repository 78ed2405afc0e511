#include "model/load/made_types.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "io/tensor_layout.h"
#include "model/load/quantized/quantized_mlx.h"

namespace talon {
namespace {

constexpr std::size_t kGroupOfBlocks = 32;  // inputs of a block of q4_0 and q8_0
constexpr std::uint64_t kBitsOfWord = 32;

std::uint64_t stored_values(const StoredTensor& tensor) {
  std::uint64_t values = 1;
  for (const std::int64_t size : tensor.shape) values *= static_cast<std::uint64_t>(size);
  return values;
}

bool holds_words(const Quantization& q) {
  using Method = Quantization::Method;
  return q.method == Method::gptq || q.method == Method::awq || q.method == Method::packed;
}

std::uint64_t codes_in_words(std::uint64_t words, const Quantization& q) {
  return words * kBitsOfWord / static_cast<std::uint64_t>(q.bits);
}

/// Of a matrix with these codes.
std::uint64_t inputs_of_codes(const StoredTensor& codes, const Quantization& q) {
  using Method = Quantization::Method;
  const auto first = static_cast<std::uint64_t>(codes.shape[0]);
  if (q.method == Method::gptq) return codes_in_words(first, q);
  if (q.method == Method::awq) return first;
  const auto second = static_cast<std::uint64_t>(codes.shape[1]);
  return holds_words(q) ? codes_in_words(second, q) : second;
}

/// The group of each input where a tensor says so; empty: they lie in their order.
std::vector<std::int32_t> order_of_groups(const Checkpoint& folder, const std::string& stem) {
  for (const char* part : {"g_idx", "weight_g_idx"}) {
    const StoredTensor* order = folder.find(stem + part);
    if (!order || order->type != StorageType::i32) continue;
    std::vector<std::int32_t> groups(order->bytes.size() / sizeof(std::int32_t));
    if (!groups.empty()) std::memcpy(groups.data(), order->bytes.data(), order->bytes.size());
    const bool unset = std::ranges::all_of(groups, [](std::int32_t group) { return group == -1; });
    if (!unset) return groups;
  }
  return {};
}

/// Whether each block of inputs has one scale.
bool is_whole_blocks(const Checkpoint& folder, const std::string& stem, const Quantization& q,
                     std::uint64_t inputs) {
  if (inputs % kGroupOfBlocks != 0) return false;
  const std::vector<std::int32_t> groups = order_of_groups(folder, stem);
  if (groups.empty()) return static_cast<std::size_t>(q.group) % kGroupOfBlocks == 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] != groups[i / kGroupOfBlocks * kGroupOfBlocks]) return false;
  }
  return true;
}

/// Whether codes of a byte are all from -8 to 7, which ends at the first of most matrices.
bool fit_nibbles(std::span<const std::byte> codes, int zero) {
  return std::ranges::all_of(codes, [zero](std::byte code) {
    const int value = zero > 0 ? std::to_integer<int>(code) - zero : static_cast<std::int8_t>(code);
    return value >= -8 && value <= 7;
  });
}

StorageType smallest_of(const StoredTensor& codes, const Checkpoint& folder,
                        const std::string& stem, const Quantization& q) {
  if (!is_whole_blocks(folder, stem, q, inputs_of_codes(codes, q))) return StorageType::f32;
  const bool packed = q.method == Quantization::Method::packed;
  const bool bytes = packed || q.method == Quantization::Method::whole_numbers;
  if (!bytes || q.bits != 8 || !q.symmetric) return StorageType::q4_0;
  return fit_nibbles(codes.bytes, packed ? 128 : 0) ? StorageType::q4_0 : StorageType::q8_0;
}

/// Codes of gpt-oss's experts, two in a byte.
std::optional<MadeOutline> outline_of_mxfp4(const StoredTensor& tensor) {
  constexpr std::string_view kEnd = "_blocks";
  if (tensor.type != StorageType::u8 || !tensor.name.ends_with(kEnd)) return std::nullopt;
  return MadeOutline{tensor.name.substr(0, tensor.name.size() - kEnd.size()), StorageType::mxfp4,
                     2 * stored_values(tensor), /*is_stack=*/true};
}

/// Bytes that hold two codes of a number each, or one.
std::optional<MadeOutline> outline_of_bytes(const StoredTensor& tensor, const Checkpoint& folder,
                                            Quantization::Method method) {
  constexpr std::string_view kPacked = "_packed";
  std::string matrix = tensor.name;
  if (matrix.ends_with(kPacked)) matrix.resize(matrix.size() - kPacked.size());
  if (!matrix.ends_with(".weight")) return std::nullopt;
  const bool in_pairs = tensor.type == StorageType::u8;
  MadeOutline made{matrix, StorageType::f32, (in_pairs ? 2 : 1) * stored_values(tensor)};
  if (method == Quantization::Method::nvfp4) {
    return in_pairs && folder.find(matrix + "_scale") ? std::optional(made) : std::nullopt;
  }
  if (in_pairs && folder.find(matrix + ".quant_map")) {
    made.type = StorageType::bf16;
    return made;
  }
  const std::string stem = matrix.substr(0, matrix.size() - std::string_view("weight").size());
  const bool scaled = tensor.type == StorageType::i8 && folder.find(stem + "SCB");
  return scaled ? std::optional(made) : std::nullopt;
}

/// Words of MLX's codes, of a matrix or a stack.
std::optional<MadeOutline> outline_of_groups(const StoredTensor& tensor, const Checkpoint& folder,
                                             const Quantization& q) {
  constexpr std::string_view kEnd = "weight";
  if (tensor.type != StorageType::i32 || !tensor.name.ends_with(kEnd)) return std::nullopt;
  const std::string stem = tensor.name.substr(0, tensor.name.size() - kEnd.size());
  if (!folder.find(stem + "scales")) return std::nullopt;
  const Quantization::Groups& groups = q.groups_of(tensor.name);
  const auto values_in = [&](std::uint64_t words) {
    return words * kBitsOfWord / static_cast<std::uint64_t>(groups.bits);
  };
  const auto row = static_cast<std::uint64_t>(tensor.shape.empty() ? 0 : tensor.shape.back());
  return MadeOutline{tensor.name, smallest_type_of_codes(groups, values_in(row)),
                     values_in(stored_values(tensor)), tensor.shape.size() == 3};
}

}  // namespace

std::optional<MadeOutline> outline_of_made(const StoredTensor& tensor, const Checkpoint& folder,
                                           const std::optional<Quantization>& quantization) {
  using Method = Quantization::Method;
  if (auto blocks = outline_of_mxfp4(tensor)) return blocks;
  if (!quantization || holds_reals(tensor.type)) return std::nullopt;
  const Quantization& q = *quantization;
  if (q.method == Method::mlx) return outline_of_groups(tensor, folder, q);
  if (tensor.shape.size() == 3 && tensor.type == StorageType::f8_e4m3) {
    return MadeOutline{tensor.name, StorageType::f32, stored_values(tensor), /*is_stack=*/true};
  }
  if (tensor.shape.size() != 2) return std::nullopt;
  if (q.method == Method::nvfp4 || q.method == Method::bitsandbytes) {
    return outline_of_bytes(tensor, folder, q.method);
  }
  const std::string_view part = q.method == Method::packed ? "weight_packed"
                                : holds_words(q)           ? "qweight"
                                                           : "weight";
  if (!tensor.name.ends_with("." + std::string(part))) return std::nullopt;
  const std::string stem = tensor.name.substr(0, tensor.name.size() - part.size());
  MadeOutline made{stem + "weight", StorageType::f32, stored_values(tensor)};
  if (holds_words(q)) {
    if (tensor.type != StorageType::i32) return std::nullopt;
    made.values = codes_in_words(made.values, q);
    made.type = smallest_of(tensor, folder, stem, q);
    return made;
  }
  const bool scaled = folder.find(stem + "weight_scale") || folder.find(stem + "weight_scale_inv");
  if (!scaled) return std::nullopt;
  if (q.method == Method::whole_numbers && tensor.type == StorageType::i8) {
    made.type = smallest_of(tensor, folder, stem, q);
    return made;
  }
  const bool floats = q.method == Method::floats || q.method == Method::float_blocks;
  return floats && tensor.type == StorageType::f8_e4m3 ? std::optional(made) : std::nullopt;
}

}  // namespace talon
