#include "io/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "io/formats/split_gguf.h"
#include "io/parse.h"
#include "io/quote.h"

namespace talon {
namespace {

using Parse = Checkpoint (*)(std::span<const std::byte>, const std::filesystem::path&);

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

bool looks_like_safetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < 9) return false;
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  return bytes[8] == std::byte{'{'} && header_bytes < (std::uint64_t{1} << 40);
}

bool looks_like_llama2c(std::span<const std::byte> bytes) {
  std::int32_t header[7];
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(header, bytes.data(), sizeof(header));
  const auto plausible = [](std::int32_t value) { return value > 0 && value < (1 << 24); };
  return std::ranges::all_of(std::span(header, 5), plausible) &&
         (plausible(header[5]) || plausible(-header[5])) && plausible(header[6]);
}

Parse parser_of(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  if (begins_with(bytes, "GGUF")) return parse_gguf;
  if (begins_with(bytes, "PK")) return parse_torch_bin;
  if (looks_like_safetensors(bytes)) return parse_safetensors;
  if (looks_like_llama2c(bytes)) return parse_llama2c;
  const auto refuse = [&](std::string_view found) {
    fail("open model {}: expected a GGUF, safetensors, torch .bin or llama2.c file, found {}",
         quote(path.string()), found);
  };
  if (begins_with(bytes, "FUGG")) refuse("a big-endian GGUF file");
  if (begins_with(bytes, "\x80\x02")) {
    refuse("a bare pickle (torch's format before 1.6; save it again with a newer torch)");
  }
  if (begins_with(bytes, "version https://git-lfs")) {
    refuse("a Git LFS pointer instead of the file it stands for");
  }
  if (begins_with(bytes, "<!DOCTYPE") || begins_with(bytes, "<html")) refuse("a web page");
  if (begins_with(bytes, "{")) refuse("JSON text (give the folder to open a Hugging Face model)");
  refuse(fmt::format("one that begins with {}", quote({reinterpret_cast<const char*>(bytes.data()),
                                                       std::min<std::size_t>(bytes.size(), 8)})));
  throw Bug("parser_of: refuse() returned");
}

/// A model with a matrix for each expert has tens of thousands of tensors, and its loader asks for
/// several names a matrix.
Checkpoint indexed(Checkpoint checkpoint) {
  std::vector<std::size_t>& by_name = checkpoint.by_name;
  by_name.resize(checkpoint.tensors.size());
  std::iota(by_name.begin(), by_name.end(), std::size_t{0});
  std::ranges::stable_sort(by_name, {}, [&](std::size_t place) -> const std::string& {
    return checkpoint.tensors[place].name;
  });
  return checkpoint;
}

}  // namespace

std::string_view name_of(CheckpointFormat format) {
  switch (format) {
    case CheckpointFormat::gguf:
      return "GGUF";
    case CheckpointFormat::hugging_face:
      return "Hugging Face folder";
    case CheckpointFormat::safetensors:
      return "safetensors";
    case CheckpointFormat::torch_bin:
      return "torch .bin";
    case CheckpointFormat::llama2c:
      return "llama2.c checkpoint";
  }
  throw Bug("name_of: not a checkpoint format");
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  if (by_name.size() != tensors.size()) {
    const auto found = std::ranges::find(tensors, name, &StoredTensor::name);
    return found == tensors.end() ? nullptr : &*found;
  }
  const auto name_at = [&](std::size_t place) { return std::string_view(tensors[place].name); };
  const auto found = std::ranges::lower_bound(by_name, name, {}, name_at);
  return found != by_name.end() && name_at(*found) == name ? &tensors[*found] : nullptr;
}

void Checkpoint::check_whole() const {
  for (const MappedFile& file : files) file.check_whole();
}

const StoredTensor& Checkpoint::require(std::string_view name) const {
  if (const StoredTensor* tensor = find(name)) return *tensor;
  fail("load {}: expected the tensor {}, found {} others", quote(path.string()), quote(name),
       tensors.size());
}

Checkpoint open_checkpoint(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const auto head = path / "head.gguf";
    const bool lone = !exists(path / "config.json", ignored) && is_regular_file(head, ignored);
    return lone ? open_checkpoint(head) : indexed(read_hugging_face(path));
  }
  MappedFile mapped(path);
  Checkpoint checkpoint = parser_of(mapped.bytes(), path)(mapped.bytes(), path);
  mapped.check_whole();
  checkpoint.files.push_back(std::move(mapped));
  if (checkpoint.format == CheckpointFormat::gguf) append_splits(checkpoint);
  return indexed(std::move(checkpoint));
}

}  // namespace talon
