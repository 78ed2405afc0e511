#include "maker_data.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zstd.h>

#include <cstring>
#include <fstream>

#include "core/error.h"
#include "io/checkpoint.h"
#include "io/codec/zstd.h"

namespace talon {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// A file that was compressed as a difference from `original`.
std::string read_patch(const fs::path& path, const std::string& original) {
  const std::string patch = read_file(path);
  std::string bytes(ZSTD_getFrameContentSize(patch.data(), patch.size()), '\0');
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(),
                                                                     ZSTD_freeDCtx);
  ZSTD_DCtx_refPrefix(context.get(), original.data(), original.size());
  const std::size_t size =
      ZSTD_decompressDCtx(context.get(), bytes.data(), bytes.size(), patch.data(), patch.size());
  if (ZSTD_isError(size)) fail("decompress {}: {}", path.string(), ZSTD_getErrorName(size));
  return bytes;
}

template <typename T>
std::vector<T> numbers(const Checkpoint& file, const std::string& name) {
  const StoredTensor* tensor = file.find(name);
  if (!tensor) return {};
  std::vector<T> values(tensor->bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

std::vector<std::vector<float>> rows(const Checkpoint& file, const std::string& name) {
  const StoredTensor* tensor = file.find(name);
  if (!tensor) return {};
  const std::vector<float> all = numbers<float>(file, name);
  std::vector<std::vector<float>> result;
  const auto cols = static_cast<std::size_t>(tensor->shape[1]);
  for (std::size_t i = 0; i < all.size(); i += cols) {
    result.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i),
                        all.begin() + static_cast<std::ptrdiff_t>(i + cols));
  }
  return result;
}

}  // namespace

MakerRecording unpack_maker(const std::string& family) {
  const fs::path packed = fs::path(TALON_TEST_DATA) / "golden/makers" / family;
  MakerRecording recording;
  const fs::path place =
      fs::path(testing::TempDir()) / fmt::format("talon_makers_{}", getpid()) / family;
  recording.folder = place / "hf";
  fs::create_directories(recording.folder);
  fs::copy_file(packed / "config.json", recording.folder / "config.json",
                fs::copy_options::overwrite_existing);
  const std::string weights = read_zstd(packed / "model.safetensors.zst");
  write_file(recording.folder / "model.safetensors", weights);
  if (const fs::path patch = packed / "model.gguf.patch.zst"; fs::exists(patch)) {
    recording.gguf = place / "model.gguf";
    write_file(recording.gguf, read_patch(patch, weights));
  }
  if (const fs::path apart = packed / "mtp.gguf.patch.zst"; fs::exists(apart)) {
    recording.mtp_gguf = place / "mtp.gguf";
    write_file(recording.mtp_gguf, read_patch(apart, weights));
  }
  write_file(place / "golden.safetensors", read_zstd(packed / "golden.safetensors.zst"));

  const Checkpoint golden = read_safetensors(place / "golden.safetensors");
  for (int k = 0; k < 3; ++k) {
    MakerSequence sequence;
    sequence.ids = numbers<TokenId>(golden, fmt::format("ids.{}", k));
    sequence.logits = rows(golden, fmt::format("logits.{}", k));
    sequence.gguf_logits = rows(golden, fmt::format("gguf.logits.{}", k));
    sequence.first_row = static_cast<int>(sequence.ids.size() - sequence.logits.size());
    sequence.greedy = numbers<TokenId>(golden, fmt::format("greedy.{}", k));
    sequence.margin = numbers<float>(golden, fmt::format("greedy_margin.{}", k));
    if (k == 0) {
      sequence.final = rows(golden, "tap.final");
      sequence.mtp_hidden = rows(golden, "mtp.hidden");
      sequence.mtp_logits = rows(golden, "mtp.logits");
    }
    recording.sequences.push_back(std::move(sequence));
  }
  return recording;
}

QuantizedRecording unpack_quantized(const std::string& name) {
  const fs::path packed = fs::path(TALON_TEST_DATA) / "golden/quantized" / name;
  QuantizedRecording recording;
  recording.folder =
      fs::path(testing::TempDir()) / fmt::format("talon_quantized_{}", getpid()) / name;
  fs::create_directories(recording.folder);
  fs::copy_file(packed / "config.json", recording.folder / "config.json",
                fs::copy_options::overwrite_existing);
  write_file(recording.folder / "model.safetensors", read_zstd(packed / "model.safetensors.zst"));
  const fs::path golden_file = recording.folder.parent_path() / (name + ".safetensors");
  write_file(golden_file, read_zstd(packed / "golden.safetensors.zst"));
  const Checkpoint golden = read_safetensors(golden_file);
  recording.ids = numbers<TokenId>(golden, "ids.1");
  recording.logits = rows(golden, "logits.1");
  recording.q_proj = rows(golden, "q_proj.1");
  return recording;
}

}  // namespace talon
