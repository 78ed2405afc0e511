#include "train/data/shard.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "io/quote.h"
#include "train/data/checksum.h"

namespace talon {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kFileMagic = "TALONTD1";
constexpr std::uint32_t kRecordMagic = 0x31635454;  // "TTc1"
constexpr std::string_view kRemedy =
    "delete the shard; if `talon train data` made it, run that again to make its conversations "
    "anew";

struct FileHeader {
  char magic[8] = {};
  ShardKind kind;
  std::uint64_t zero[3] = {0, 0, 0};
  std::uint64_t header_checksum = 0;
};
static_assert(sizeof(FileHeader) == kShardAlignment);

template <typename Header>
std::uint64_t own_checksum(const Header& header) {
  return checksum(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_checksum)));
}

template <typename Header>
Header load(std::span<const std::byte> bytes) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + kShardAlignment - 1) / kShardAlignment * kShardAlignment;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

void check_file_header(const MappedFile& file, const ShardKind& kind) {
  const auto header = load<FileHeader>(file.bytes());
  const std::string name = quote(file.path().string());
  if (std::string_view(header.magic, sizeof(header.magic)) != kFileMagic) {
    fail("open {}: expected a shard of training data, found another kind of file", name);
  }
  if (header.header_checksum != own_checksum(header)) {
    fail("open {}: the file header is damaged; {}", name, kRemedy);
  }
  if (header.kind != kind) {
    fail("open {}: the shard belongs to another target than the manifest of its folder", name);
  }
}

bool is_whole(const RecordHeader& header) {
  return header.magic == kRecordMagic && header.header_checksum == own_checksum(header) &&
         header.tokens >= 2 && header.response_begin >= 1 && header.response_begin < header.tokens;
}

}  // namespace

PayloadLayout payload_layout(const RecordHeader& header, const ShardKind& kind) {
  const std::size_t source = std::size_t{header.tokens} * sizeof(TokenId);
  const std::size_t features = padded(source + header.source_bytes);
  const std::size_t rows = std::size_t{header.tokens - 1} * kind.rows().row_bytes();
  return {source, features, padded(features + rows)};
}

std::vector<std::byte> shard_header(const ShardKind& kind) {
  FileHeader header;
  std::copy(kFileMagic.begin(), kFileMagic.end(), header.magic);
  header.kind = kind;
  header.header_checksum = own_checksum(header);
  const auto bytes = std::as_bytes(std::span(&header, 1));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> encode_record(const Record& record, const ShardKind& kind) {
  RecordHeader header;
  header.magic = kRecordMagic;
  header.tokens = static_cast<std::uint32_t>(record.tokens.size());
  header.response_begin = static_cast<std::uint32_t>(record.response_begin);
  header.source_bytes = static_cast<std::uint32_t>(record.source.size());
  header.job = record.job;
  header.temperature = record.temperature;
  header.saturated = record.saturated;
  expects(header.tokens >= 2 && record.response_begin >= 1 &&
              header.response_begin < header.tokens &&
              record.features.size() == std::size_t{header.tokens - 1} * kind.rows().row_bytes(),
          "a record with a prompt, a response and a row for each token but the last");

  const PayloadLayout layout = payload_layout(header, kind);
  std::vector<std::byte> bytes(sizeof(header) + layout.bytes);
  const std::span payload = std::span(bytes).subspan(sizeof(header));
  std::memcpy(payload.data(), record.tokens.data(), layout.source);
  std::memcpy(payload.data() + layout.source, record.source.data(), record.source.size());
  std::memcpy(payload.data() + layout.features, record.features.data(), record.features.size());
  header.payload_checksum = checksum(payload);
  header.header_checksum = own_checksum(header);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

ShardContents scan_shard(const MappedFile& file, const ShardKind& kind) {
  const std::span<const std::byte> bytes = file.bytes();
  ShardContents contents;
  contents.torn = true;
  if (bytes.size() < sizeof(FileHeader) || all_zero(bytes.first(sizeof(FileHeader)))) {
    return contents;
  }
  check_file_header(file, kind);
  std::size_t offset = sizeof(FileHeader);
  for (; offset < bytes.size(); offset = contents.whole_bytes) {
    contents.whole_bytes = offset;
    if (bytes.size() - offset < sizeof(RecordHeader)) return contents;
    const auto header = load<RecordHeader>(bytes.subspan(offset));
    if (!is_whole(header)) {
      if (all_zero(bytes.subspan(offset))) return contents;
      fail("open {}: the record header at byte {} is damaged; {}", quote(file.path().string()),
           offset, kRemedy);
    }
    const std::size_t end = offset + sizeof(header) + payload_layout(header, kind).bytes;
    if (end > bytes.size()) return contents;
    contents.records.push_back({offset, header});
    contents.whole_bytes = end;
  }
  contents.whole_bytes = offset;
  contents.torn = false;
  return contents;
}

std::span<const std::byte> read_payload(const MappedFile& file, const RecordPlace& place,
                                        const ShardKind& kind) {
  const auto payload = file.bytes().subspan(place.offset + sizeof(RecordHeader),
                                            payload_layout(place.header, kind).bytes);
  if (checksum(payload) != place.header.payload_checksum) {
    fail("read {}: the record at byte {} is damaged (its checksum differs); {}",
         quote(file.path().string()), place.offset, kRemedy);
  }
  return payload;
}

std::vector<std::filesystem::path> list_shards(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> shards;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    if (entry->path().extension() == kShardSuffix) shards.push_back(entry->path());
    entry.increment(error);
  }
  if (error) fail("list the shards in {}: {}", quote(folder.string()), error.message());
  std::sort(shards.begin(), shards.end());
  return shards;
}

}  // namespace talon
