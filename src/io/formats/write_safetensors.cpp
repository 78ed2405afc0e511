#include "io/formats/write_safetensors.h"

#include <array>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/tensor_layout.h"

namespace talon {
namespace {

constexpr std::size_t kAlignment = 8;

std::string dtype_of(StorageType type) {
  switch (type) {
    case StorageType::f32:
      return "F32";
    case StorageType::f16:
      return "F16";
    case StorageType::bf16:
      return "BF16";
    case StorageType::f64:
      return "F64";
    case StorageType::f8_e4m3:
      return "F8_E4M3";
    case StorageType::i32:
      return "I32";
    case StorageType::i64:
      return "I64";
    case StorageType::u8:
      return "U8";
    case StorageType::boolean:
      return "BOOL";
    default:
      break;
  }
  throw Bug("a type that safetensors files have");
}

}  // namespace

void write_safetensors(const std::filesystem::path& file, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t end = 0;
  for (const TensorToWrite& tensor : tensors) {
    expects(stored_bytes(tensor.type, tensor.shape) == tensor.bytes.size(), "bytes of its shape");
    const std::size_t begin = end;
    end += tensor.bytes.size();
    header[tensor.name] = {
        {"dtype", dtype_of(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::array<std::byte, 8> size;
  for (std::size_t i = 0; i < size.size(); ++i)
    size[i] = static_cast<std::byte>(text.size() >> (8 * i));
  AtomicFile output(file);
  output.write(size);
  output.write(std::as_bytes(std::span(text)));
  for (const TensorToWrite& tensor : tensors) output.write(tensor.bytes);
  output.commit();
}

}  // namespace talon
