#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "io/mapped_file.h"
#include "io/storage_type.h"

namespace talon {

/// One tensor as a file holds it. `bytes` borrows from the Checkpoint it came from.
struct StoredTensor {
  std::string name;
  StorageType type = StorageType::f32;
  std::vector<std::int64_t>
      shape;  // outermost first: a matrix is [out rows, in columns]; a row is contiguous
  std::span<const std::byte> bytes;
};

enum class CheckpointFormat { gguf, hugging_face, safetensors, torch_bin, llama2c };
std::string_view name_of(CheckpointFormat format);

/// Everything one model or head has on disk, whatever the format. Opening checks every count,
/// offset, size, type and name, so that whoever holds a Checkpoint may trust `shape` against
/// `bytes`; values are not looked at. Move-only.
struct Checkpoint {
  CheckpointFormat format;
  std::filesystem::path path;  // the file or folder that was opened
  // GGUF: its key-values. Folder: config.json, and as "hf_quant_config" the file of that name where
  // config.json has no quantization_config. llama2.c: its header, by field name
  Json metadata;
  std::vector<StoredTensor> tensors;  // in file order
  std::vector<MappedFile> files;      // what `bytes` points into
  std::vector<std::unique_ptr<std::byte[]>>
      owned;  // ... or here (torch tensors that had to be made contiguous)
  // Places in `tensors`, by name; as open_checkpoint gives it. Else find() looks at one after the
  // other.
  std::vector<std::size_t> by_name = {};

  /// The tensor of that name, or nullptr.
  const StoredTensor* find(std::string_view name) const;
  /// The tensor of that name, or an Error that names the file and the tensor.
  const StoredTensor& require(std::string_view name) const;
  /// For whoever has read tensors: throws Error if a file became shorter meanwhile.
  void check_whole() const;
};

/// Opens a GGUF file, a Hugging Face folder (config.json with safetensors, sharded or not, or
/// pytorch_model*.bin), a folder with a head.gguf alone, a single safetensors or torch .bin file,
/// or a llama2.c checkpoint, told apart by content. Throws Error.
Checkpoint open_checkpoint(const std::filesystem::path& path);

Checkpoint read_gguf(const std::filesystem::path& file);  // GGUF v2, v3, little-endian
Checkpoint read_safetensors(
    const std::filesystem::path& file);  // metadata: the header's __metadata__
Checkpoint read_hugging_face(const std::filesystem::path& folder);
Checkpoint read_torch_bin(
    const std::filesystem::path& file);  // zip + pickle, few opcodes and classes only
Checkpoint read_llama2c(const std::filesystem::path& file);  // llama2.c's first format, float32

}  // namespace talon
