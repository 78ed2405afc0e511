#include "io/formats/stored_zip.h"

#include <algorithm>
#include <cstring>

#include "io/byte_reader.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034B50;
constexpr std::uint32_t kCentralHeader = 0x02014B50;
constexpr std::uint32_t kEnd = 0x06054B50;
constexpr std::uint32_t kEnd64 = 0x06064B50;
constexpr std::uint32_t kEnd64Locator = 0x07064B50;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kEnd64LocatorBytes = 20;
constexpr std::size_t kCentralHeaderBytes = 46;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // the value stands in the zip64 record
constexpr std::uint16_t kIn64Short = 0xFFFF;

template <typename T>
T load(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;  // where the record that described it begins
};

// What a central header says of one entry.
struct EntryHeader {
  std::string name;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint64_t compressed = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;  // of the local header
};

struct Place {
  std::uint64_t begin, end;  // local header and data
};

class ZipParser {
 public:
  ZipParser(std::span<const std::byte> archive, const std::string& doing)
      : archive_(archive), doing_(doing) {}

  std::vector<ZipEntry> parse() {
    const Directory directory = find_directory();
    ByteReader reader = reader_at(directory.offset);
    reader.need_items(directory.entries, kCentralHeaderBytes, "zip directory entries");
    for (std::uint64_t i = 0; i < directory.entries; ++i) {
      const EntryHeader header = read_central_header(reader);
      entries_.push_back({header.name, locate(header, directory)});
    }
    if (reader.position() != directory.offset + directory.bytes) {
      fail("{}: expected a zip directory of {} bytes, found {}", doing_, directory.bytes,
           reader.position() - directory.offset);
    }
    refuse_overlaps();
    refuse_duplicates();
    return std::move(entries_);
  }

 private:
  // REQUIRES: offset <= archive size.
  ByteReader reader_at(std::uint64_t offset) const {
    ByteReader reader(archive_, doing_);
    reader.seek(offset);
    return reader;
  }

  // The end record is the last thing in the file, before a comment of at most 65535 bytes.
  std::size_t find_end_record() const {
    constexpr std::size_t kLongestComment = 65535;
    const std::size_t size = archive_.size();
    for (std::size_t comment = 0; comment <= kLongestComment && comment + kEndBytes <= size;
         ++comment) {
      const std::size_t position = size - kEndBytes - comment;
      const auto record = archive_.subspan(position, kEndBytes);
      if (load<std::uint32_t>(record) == kEnd &&
          load<std::uint16_t>(record.subspan(20)) == comment) {
        return position;
      }
    }
    fail("{}: expected a zip directory at the end, found none (is the file cut off?)", doing_);
  }

  Directory find_directory() const {
    const std::size_t end = find_end_record();
    ByteReader reader = reader_at(end + 4);
    const auto disk = reader.take<std::uint16_t>("the disk number");
    const auto directory_disk = reader.take<std::uint16_t>("the directory's disk number");
    const auto disk_entries = reader.take<std::uint16_t>("the number of entries on the disk");
    Directory directory;
    directory.entries = reader.take<std::uint16_t>("the number of entries");
    directory.bytes = reader.take<std::uint32_t>("the directory size");
    directory.offset = reader.take<std::uint32_t>("the directory offset");
    directory.end = end;
    if (disk_entries == kIn64Short || directory.entries == kIn64Short || directory.bytes == kIn64 ||
        directory.offset == kIn64) {
      const Directory wide = find_directory64(end);
      const bool agree = (directory.entries == kIn64Short || directory.entries == wide.entries) &&
                         (directory.bytes == kIn64 || directory.bytes == wide.bytes) &&
                         (directory.offset == kIn64 || directory.offset == wide.offset);
      if (!agree) fail("{}: expected two end records that agree, found two that differ", doing_);
      directory = wide;
    } else if (disk != 0 || directory_disk != 0 || disk_entries != directory.entries) {
      fail("{}: expected a zip archive in one part, found one in several", doing_);
    }
    if (directory.offset > directory.end || directory.bytes > directory.end - directory.offset) {
      fail("{}: expected the zip directory before byte {}, found {} bytes at {}", doing_,
           directory.end, directory.bytes, directory.offset);
    }
    return directory;
  }

  Directory find_directory64(std::size_t end) const {
    if (end < kEnd64LocatorBytes) fail("{}: expected a zip64 locator, found none", doing_);
    ByteReader locator = reader_at(end - kEnd64LocatorBytes);
    if (locator.take<std::uint32_t>("a signature") != kEnd64Locator) {
      fail("{}: byte {}: expected a zip64 locator, found something else", doing_,
           end - kEnd64LocatorBytes);
    }
    locator.skip(4, "a disk number");
    Directory directory;
    directory.end = locator.take<std::uint64_t>("the offset of the zip64 end record");
    const std::size_t limit = end - kEnd64LocatorBytes;
    if (directory.end > limit || limit - directory.end < kEnd64Bytes) {
      fail("{}: expected the zip64 end record before byte {}, found its offset to be {}", doing_,
           limit, directory.end);
    }
    ByteReader reader = reader_at(directory.end);
    if (reader.take<std::uint32_t>("a signature") != kEnd64) {
      fail("{}: byte {}: expected a zip64 end record, found something else", doing_, directory.end);
    }
    reader.skip(8 + 2 + 2 + 4 + 4, "the zip64 end record");
    const auto disk_entries = reader.take<std::uint64_t>("the number of entries on the disk");
    directory.entries = reader.take<std::uint64_t>("the number of entries");
    directory.bytes = reader.take<std::uint64_t>("the directory size");
    directory.offset = reader.take<std::uint64_t>("the directory offset");
    if (disk_entries != directory.entries) {
      fail("{}: expected a zip archive in one part, found one in several", doing_);
    }
    return directory;
  }

  EntryHeader read_central_header(ByteReader& reader) const {
    if (reader.take<std::uint32_t>("a signature") != kCentralHeader) {
      fail("{}: byte {}: expected a zip directory entry, found something else", doing_,
           reader.position() - 4);
    }
    EntryHeader header;
    reader.skip(4, "versions");
    header.flags = reader.take<std::uint16_t>("entry flags");
    header.method = reader.take<std::uint16_t>("a compression method");
    reader.skip(8, "times and checksum");
    header.compressed = reader.take<std::uint32_t>("a compressed size");
    header.size = reader.take<std::uint32_t>("a size");
    const auto name_bytes = reader.take<std::uint16_t>("a name size");
    const auto extra_bytes = reader.take<std::uint16_t>("an extra field size");
    const auto comment_bytes = reader.take<std::uint16_t>("a comment size");
    reader.skip(8, "entry attributes");
    header.offset = reader.take<std::uint32_t>("an entry offset");
    header.name = reader.take_text(name_bytes, "an entry name");
    const std::string_view extra = reader.take_text(extra_bytes, "an extra field");
    reader.skip(comment_bytes, "an entry comment");
    read_extra(extra, header);
    return header;
  }

  // The zip64 extra field holds, in this order, those of the three numbers that did not fit.
  void read_extra(std::string_view extra, EntryHeader& header) const {
    constexpr std::uint16_t kZip64Tag = 1;
    ByteReader reader(std::as_bytes(std::span(extra)), doing_);
    while (reader.remaining() >= 4) {
      const auto tag = reader.take<std::uint16_t>("an extra field tag");
      const auto size = reader.take<std::uint16_t>("an extra field size");
      const std::string_view field = reader.take_text(size, "an extra field");
      if (tag != kZip64Tag) continue;
      ByteReader numbers(std::as_bytes(std::span(field)), doing_);
      for (std::uint64_t* number : {&header.size, &header.compressed, &header.offset}) {
        if (*number == kIn64) *number = numbers.take<std::uint64_t>("a zip64 extra field");
      }
      return;
    }
  }

  std::span<const std::byte> locate(const EntryHeader& header, const Directory& directory) {
    const auto refuse = [&](std::string_view expected, std::string_view found) {
      fail("{}: zip entry {}: expected {}, found {}", doing_, quote(header.name), expected, found);
    };
    if (header.flags & 1) refuse("it not to be encrypted", "it encrypted");
    if (header.method != 0) {
      refuse("it stored without compression", fmt::format("method {}", header.method));
    }
    if (header.compressed != header.size) refuse("one size", "two different ones");
    if (header.offset >= directory.offset) {
      refuse("it before the directory", fmt::format("its offset to be {}", header.offset));
    }
    ByteReader reader = reader_at(header.offset);
    if (reader.take<std::uint32_t>("a signature") != kLocalHeader) {
      refuse("a local header", "something else");
    }
    reader.skip(22, "a local header");
    const auto name_bytes = reader.take<std::uint16_t>("a name size");
    const auto extra_bytes = reader.take<std::uint16_t>("an extra field size");
    const std::string_view name = reader.take_text(name_bytes, "an entry name");
    if (name != header.name) refuse("the same name in its local header", quote(name));
    reader.skip(extra_bytes, "an extra field");
    const std::uint64_t begin = reader.position();
    if (begin > directory.offset || header.size > directory.offset - begin) {
      refuse("its data before the directory", fmt::format("{} bytes at {}", header.size, begin));
    }
    places_.push_back({header.offset, begin + header.size});
    return archive_.subspan(begin, header.size);
  }

  void refuse_overlaps() {
    std::ranges::sort(places_, {}, &Place::begin);
    for (std::size_t i = 1; i < places_.size(); ++i) {
      if (places_[i].begin < places_[i - 1].end) {
        fail("{}: byte {}: expected each byte in one zip entry, found it in two", doing_,
             places_[i].begin);
      }
    }
  }

  void refuse_duplicates() const {
    std::vector<std::string_view> names;
    for (const ZipEntry& entry : entries_) names.push_back(entry.name);
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) fail("{}: zip entry {}: found twice", doing_, quote(*twice));
  }

  std::span<const std::byte> archive_;
  const std::string& doing_;
  std::vector<ZipEntry> entries_;
  std::vector<Place> places_;
};

}  // namespace

std::vector<ZipEntry> read_stored_zip(std::span<const std::byte> archive,
                                      const std::string& doing) {
  return ZipParser(archive, doing).parse();
}

}  // namespace talon
