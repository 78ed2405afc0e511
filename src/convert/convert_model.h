#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/stop.h"
#include "io/checkpoint.h"

namespace talon {

struct ConvertOptions {
  // What matrices are stored in: q8_0, f16, bf16 or f32. None: as they are, in the smallest type of
  // GGUF that changes no value.
  std::optional<StorageType> type;
  const StopFlag* stop = nullptr;  // borrowed; may be null
  // Bytes written of all; while what will be written is looked at, bytes of 0. May be empty.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress;
};

struct ConvertReport {
  std::string architecture;
  std::map<StorageType, int> tensors;  // of each type
  std::uint64_t bytes = 0;
  std::vector<std::string> notes;  // what a user should know
};

/// Throws Error if `file` is one that `source` is read from, by whatever name.
void refuse_own_file(const Checkpoint& source, const std::filesystem::path& file);

/// Writes a model of any format that Talon reads as one GGUF file, as llama.cpp reads it. A GGUF,
/// of one file or several, keeps all its keys and tensors. The file appears when it is whole; no
/// more than one layer of what must be put together is in memory. Throws Error naming what the
/// format cannot say, or a file that is read itself, and `Interrupted` when it was stopped.
ConvertReport convert_model(const Checkpoint& model, const std::filesystem::path& file,
                            const ConvertOptions& options);

/// Stopped by ConvertOptions::stop.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

}  // namespace talon
