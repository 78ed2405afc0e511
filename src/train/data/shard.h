#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/types.h"
#include "io/mapped_file.h"
#include "train/data/feature_rows.h"

namespace talon {

/// The shard format (docs/formats.md): a file header, then records one after the other, each a
/// header and a payload. All little-endian; headers and payloads take multiples of kShardAlignment.
inline constexpr std::size_t kShardAlignment = 64;
inline constexpr std::string_view kShardSuffix = ".talondata";

/// What a shard's header says of all its records.
struct ShardKind {
  std::uint64_t target = 0;  // checksum of what the manifest says of the target
  std::uint32_t row_values = 0;
  std::uint32_t vocabulary = 0;
  FeatureType features = FeatureType::f16;
  std::uint32_t zero = 0;

  FeatureRows rows() const { return {row_values, features}; }
  bool operator==(const ShardKind&) const = default;
};

struct RecordHeader {
  std::uint32_t magic = 0;
  std::uint32_t tokens = 0;
  std::uint32_t response_begin = 0;
  std::uint32_t source_bytes = 0;  // of the source's name
  std::uint64_t job = 0;           // which answer to which prompt (plan.h)
  float temperature = 0;
  std::uint32_t saturated = 0;  // values beyond the half floats, stored as the largest
  std::uint64_t zero[2] = {0, 0};
  std::uint64_t payload_checksum = 0;
  std::uint64_t header_checksum = 0;  // of the bytes before it
};
static_assert(sizeof(RecordHeader) == kShardAlignment);

/// A conversation to be written.
struct Record {
  std::vector<TokenId> tokens;  // at least two
  int response_begin = 0;       // 1 to tokens - 1
  std::string source;
  std::uint64_t job = 0;
  float temperature = 0;
  std::uint32_t saturated = 0;
  std::vector<std::byte> features;  // ShardKind::rows(), tokens - 1 of them
};

/// Where the parts of a payload lie, in bytes from its begin.
struct PayloadLayout {
  std::size_t source, features, bytes;
};
PayloadLayout payload_layout(const RecordHeader& header, const ShardKind& kind);

std::vector<std::byte> shard_header(const ShardKind& kind);
/// Header and payload. REQUIRES: the record is one of that kind.
std::vector<std::byte> encode_record(const Record& record, const ShardKind& kind);

struct RecordPlace {
  std::size_t offset = 0;  // of its header in the file
  RecordHeader header;
};
struct ShardContents {
  std::vector<RecordPlace> records;
  std::size_t whole_bytes = 0;  // up to the end of the last whole record
  bool torn = false;            // a record or the file header is cut off after that
};
/// Finds the records of a shard without reading their payloads. What a killed writer leaves, a
/// record cut off at the end (or zeros there, after a power failure), is told in `torn`. Throws
/// Error naming file and place for anything else: not a shard, another kind, a damaged header.
ShardContents scan_shard(const MappedFile& file, const ShardKind& kind);

/// The payload's bytes, checked. Throws Error naming file and place if they are damaged.
std::span<const std::byte> read_payload(const MappedFile& file, const RecordPlace& place,
                                        const ShardKind& kind);

/// The shards in a folder, by name. Throws Error naming the folder if it cannot be read.
std::vector<std::filesystem::path> list_shards(const std::filesystem::path& folder);

}  // namespace talon
