#include <algorithm>
#include <fstream>

#include "io/checkpoint.h"
#include "io/formats/ggml_types.h"
#include "io/formats/write_gguf.h"
#include "io/tensor_layout.h"
#include "model_mutator.h"

namespace talon::fuzz {
namespace {

/// A file in its parts; the bytes of the tensors are borrowed from a checkpoint.
struct GgufFile {
  GgufMetadata metadata;
  std::vector<TensorToWrite> tensors;
};

GgufFile parts_of(const Checkpoint& checkpoint) {
  GgufFile file;
  for (const auto& [key, value] : checkpoint.metadata.items()) {
    file.metadata.emplace_back(key, value);
  }
  for (const StoredTensor& tensor : checkpoint.tensors) {
    file.tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.bytes});
  }
  return file;
}

/// Of the same sign as `before` can have, since the elements of a list have one type.
Json odd_number(const Json& before, Chooser& choose) {
  const bool is_small = before.is_number_integer() && before.get<std::int64_t>() >= 0 &&
                        before.get<std::int64_t>() < (1 << 20);
  std::uint64_t odd = 0;
  if (is_small && choose.chance(0.6)) {
    const auto number = before.get<std::uint64_t>();  // less than 0 is far beyond all limits
    odd =
        choose.one_of<std::uint64_t>({number + 1, number - 1, number / 2, number * 2, number * 3});
  } else {
    odd = choose.one_of<std::uint64_t>(
        {0, 1, 2, 3, 7, 16, 64, 127, 1000, 1000000000, 1ULL << 31, (1ULL << 32) + 5, ~0ULL});
  }
  const bool is_signed = before.is_number_integer() && !before.is_number_unsigned();
  return is_signed ? Json(static_cast<std::int64_t>(odd)) : Json(odd);
}

Json odd_value(const Json& before, Chooser& choose) {
  static const std::vector<Json> others = {-1,
                                           -2147483647,
                                           0.0,
                                           0.5,
                                           -1.5,
                                           1e-30,
                                           1e30,
                                           "",
                                           "yarn",
                                           "linear",
                                           true,
                                           false,
                                           Json::array(),
                                           Json::array({0U, 1U}),
                                           Json::array({1U, 2U, 3U, 4U}),
                                           Json::array({"a"})};
  return choose.chance(0.6) ? odd_number(before, choose) : choose.one_of(others);
}

/// One element is odd, or one too many or too few.
void damage_list(Json& list, Chooser& choose) {
  const std::size_t place = choose.below(list.size());
  if (choose.chance(0.2)) {
    list.push_back(Json(list[place]));
  } else if (choose.chance(0.2)) {
    list.erase(place);
  } else if (list[place].is_number_integer()) {
    list[place] = odd_number(list[place], choose);
  } else if (list[place].is_boolean()) {
    list[place] = !list[place].get<bool>();
  }
}

/// Mostly of the architecture, whose keys are few beside those of the tokenizer.
void damage_key(GgufMetadata& metadata, Chooser& choose) {
  if (metadata.empty()) return;
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const std::string& key = metadata[i].first;
    if (!key.starts_with("general.") && !key.starts_with("tokenizer.")) own.push_back(i);
  }
  const bool any = own.empty() || choose.chance(0.1);
  const std::size_t place = any ? choose.below(metadata.size()) : choose.one_of(own);
  Json& value = metadata[place].second;
  if (choose.chance(0.1)) {
    metadata.erase(metadata.begin() + static_cast<std::ptrdiff_t>(place));
  } else if (value.is_array() && !value.empty() && choose.chance(0.7)) {
    damage_list(value, choose);
  } else {
    value = odd_value(value, choose);
  }
}

/// Another type or shape of as many bytes, where there is one.
void damage_layout(TensorToWrite& tensor, Chooser& choose) {
  StorageType type = tensor.type;
  std::vector<std::int64_t> shape = tensor.shape;
  if (choose.chance(0.3)) {
    type = choose.one_of({StorageType::f32, StorageType::f16, StorageType::bf16, StorageType::i16,
                          StorageType::i32, StorageType::f64});
  } else if (choose.chance(0.5)) {
    std::ranges::reverse(shape);
  } else if (shape[0] % 2 == 0 && shape.size() > 1) {
    shape[0] /= 2;
    shape[1] *= 2;
  } else {
    shape.insert(shape.begin(), 1);
  }
  constexpr std::size_t kMostAxes = 4;
  if (shape.size() > kMostAxes || !ggml_type_of(type)) return;
  if (stored_bytes(type, shape) != tensor.bytes.size()) return;
  tensor.type = type;
  tensor.shape = std::move(shape);
}

void damage_tensors(std::vector<TensorToWrite>& tensors, Chooser& choose) {
  if (tensors.empty()) return;
  const std::size_t place = choose.below(tensors.size());
  switch (choose.below(4)) {
    case 0:
      std::swap(tensors[place].name, tensors[choose.below(tensors.size())].name);
      return;
    case 1:
      tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(place));
      return;
    default:
      return damage_layout(tensors[place], choose);
  }
}

void write_other_parts(const Checkpoint& checkpoint, const std::filesystem::path& to,
                       Chooser& choose) {
  GgufFile file = parts_of(checkpoint);
  for (std::size_t left = 1 + choose.below(3); left > 0; --left) {
    if (choose.chance(0.7)) {
      damage_key(file.metadata, choose);
    } else {
      damage_tensors(file.tensors, choose);
    }
  }
  write_gguf(to, file.metadata, file.tensors);
}

void write_other_bytes(const Checkpoint& checkpoint, const std::filesystem::path& to,
                       Chooser& choose) {
  const std::string_view whole = checkpoint.files.front().text();
  std::string bytes(whole);
  std::size_t header = bytes.size();
  for (const StoredTensor& tensor : checkpoint.tensors) {
    const auto* const data = reinterpret_cast<const char*>(tensor.bytes.data());
    header = std::min(header, static_cast<std::size_t>(data - whole.data()));
  }
  for (std::size_t left = 1 + choose.below(8); left > 0; --left) {
    const std::size_t among = choose.chance(0.8) && header > 0 ? header : bytes.size();
    bytes[choose.below(among)] = static_cast<char>(choose.number());
  }
  if (choose.chance(0.1)) bytes.resize(choose.below(bytes.size()) + 1);
  std::ofstream(to, std::ios::binary) << bytes;
}

}  // namespace

void damage_gguf(const std::filesystem::path& from, const std::filesystem::path& to,
                 Chooser& choose) {
  const Checkpoint checkpoint = open_checkpoint(from);
  if (choose.chance(0.6)) {
    write_other_parts(checkpoint, to, choose);
  } else {
    write_other_bytes(checkpoint, to, choose);
  }
}

}  // namespace talon::fuzz
