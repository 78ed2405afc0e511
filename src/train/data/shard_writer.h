#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include "train/data/shard.h"

namespace talon {

struct ShardWriterOptions {
  std::filesystem::path folder;
  int shard = 0;   // this process of
  int shards = 1;  // so many that write into the folder at once
  ShardKind kind;
  std::size_t file_bytes = std::size_t{1} << 29;  // a new file is begun beyond that
};

/// Appends records to the files of one shard, each with one write, so that a process killed at any
/// moment leaves at most one record cut off, at the end; the next writer of the shard cuts it away.
class ShardWriter {
 public:
  /// Goes on in the newest file of the shard. `note` is told what was cut away. Throws Error if
  /// another process writes the same shard, or as scan_shard().
  ShardWriter(ShardWriterOptions options, const std::function<void(const std::string&)>& note);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// When it throws (disk full, ...) the file holds whole records only and can be gone on with.
  void append(const Record& record);
  /// Whether the file that it writes still has its name.
  bool is_there() const;
  /// Everything so far is on the disk after it.
  void flush();

 private:
  std::filesystem::path path_of(int file) const;
  int newest_file() const;
  void open(int file);
  void close();
  void resume(const std::function<void(const std::string&)>& note);
  void write_whole(std::span<const std::byte> bytes);

  ShardWriterOptions options_;
  int file_ = 0;
  int descriptor_ = -1;
  std::size_t size_ = 0;
};

}  // namespace talon
