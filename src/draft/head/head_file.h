#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/stop.h"
#include "core/types.h"
#include "io/checkpoint.h"
#include "io/formats/write_gguf.h"
#include "model/config/config.h"

namespace talon {

enum class HeadStorage { q8_0, q4_1, f16, f32 };
/// Where a head has the rows of its output matrix: in the file, copied from the target if the head
/// that is written has them there, or, where they are the target's own, there alone.
enum class HeadOutput { in_file, of_target };

/// A draft head on its way into a GGUF file: the tensors, in their order.
class HeadFile {
 public:
  explicit HeadFile(HeadStorage storage) : storage_(storage) {}
  HeadFile(const HeadFile&) = delete;
  HeadFile& operator=(const HeadFile&) = delete;

  /// What rows of so many values are stored in: what was asked for, but f16 where they are no whole
  /// blocks of q8_0 or q4_1.
  StorageType type_of(std::int64_t width) const;
  /// A matrix is stored as type_of() says, a vector as f32.
  void add(std::string_view name, const std::vector<std::int64_t>& shape,
           const std::vector<float>& values);
  void add_exactly(std::string_view name, const std::vector<std::int64_t>& shape,
                   const std::vector<float>& values);
  void add_bytes(std::string_view name, StorageType type, const std::vector<std::int64_t>& shape,
                 std::vector<std::byte> bytes);
  /// `d2t`, which holds target ids. Empty: nothing is added.
  void add_vocabulary(std::span<const TokenId> tokens);
  /// The file appears when it is whole. False if `stop`, which may be null, was requested: then
  /// nothing is left behind.
  bool write(const std::filesystem::path& file, const GgufMetadata& keys,
             const StopFlag* stop) const;

 private:
  HeadStorage storage_;
  std::deque<std::vector<std::byte>> kept_;
  std::vector<TensorToWrite> written_;
};

/// All values of a tensor. Throws Error, beginning with `doing`, if it holds no reals.
std::vector<float> head_values(const StoredTensor& tensor, const std::string& doing);

/// What the head says of its training, under `talon.origin`.
void append_origin(const Checkpoint& head, GgufMetadata& keys);
/// The target's tokenizer, if that is a GGUF file, less keys that are there.
void append_tokenizer(const Checkpoint& target, GgufMetadata& keys);

/// Tables of the target, with a row of `width` values for each token. Throw Error for another
/// shape, and if there are no reals.
const StoredTensor& output_of_target(const Checkpoint& target, const ModelConfig& config,
                                     int width);
const StoredTensor& embedding_of_target(const Checkpoint& target, const ModelConfig& config,
                                        int width);
/// Throws Error, beginning with `doing`, unless row i of `ours` is row tokens[i] of `theirs`, or
/// row i where `tokens` is empty. Roundings of both to eight bits are passed over. REQUIRES: both
/// have these rows and are as wide.
void expect_same_rows(const StoredTensor& ours, const StoredTensor& theirs,
                      std::span<const TokenId> tokens, const std::string& doing);

}  // namespace talon
