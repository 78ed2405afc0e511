#include "train/data/shard_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "io/quote.h"

namespace talon {
namespace {

[[noreturn]] void fail_system(std::string_view doing, const std::filesystem::path& path) {
  const int code = errno;
  fail("{} {}: {}", doing, quote(path.string()), std::generic_category().message(code));
}

}  // namespace

ShardWriter::ShardWriter(ShardWriterOptions options,
                         const std::function<void(const std::string&)>& note)
    : options_(std::move(options)) {
  file_ = newest_file();
  try {
    open(file_);
    resume(note);
  } catch (...) {
    close();
    throw;
  }
}

ShardWriter::~ShardWriter() { close(); }

std::filesystem::path ShardWriter::path_of(int file) const {
  return options_.folder / fmt::format("shard-{:03}-of-{:03}-{:05}{}", options_.shard,
                                       options_.shards, file, kShardSuffix);
}

bool ShardWriter::is_there() const {
  std::error_code unknown;
  return std::filesystem::exists(path_of(file_), unknown);
}

/// Older ones may have been deleted.
int ShardWriter::newest_file() const {
  const std::string first = path_of(0).filename().string();
  const std::string_view name = std::string_view(first).substr(0, first.rfind('-') + 1);
  int newest = 0;
  for (const auto& shard : list_shards(options_.folder)) {
    const std::string found = shard.stem().string();
    if (found.starts_with(name)) newest = std::max(newest, std::atoi(found.c_str() + name.size()));
  }
  return newest;
}

void ShardWriter::open(int file) {
  const std::filesystem::path path = path_of(file);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) fail_system("open", path);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const bool is_taken = errno == EWOULDBLOCK;
    ::close(descriptor);
    if (is_taken) {
      fail("open {}: another process writes this shard: give each its own --shard",
           quote(path.string()));
    }
    fail_system("lock", path);
  }
  close();
  descriptor_ = descriptor;
  file_ = file;
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  if (end < 0) fail_system("look at", path);
  size_ = static_cast<std::size_t>(end);
  if (size_ == 0) write_whole(shard_header(options_.kind));
}

void ShardWriter::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

/// Cuts away what a killed writer left at the end.
void ShardWriter::resume(const std::function<void(const std::string&)>& note) {
  const std::filesystem::path path = path_of(file_);
  const ShardContents contents = scan_shard(MappedFile(path), options_.kind);
  if (!contents.torn) return;
  note(
      fmt::format("{}: the last record was cut off: dropped its {} bytes, its conversation is "
                  "made again",
                  path.string(), size_ - contents.whole_bytes));
  if (::ftruncate(descriptor_, static_cast<off_t>(contents.whole_bytes)) != 0) {
    fail_system("shorten", path);
  }
  size_ = contents.whole_bytes;
  if (size_ == 0) write_whole(shard_header(options_.kind));
}

void ShardWriter::append(const Record& record) {
  const std::vector<std::byte> bytes = encode_record(record, options_.kind);
  if (size_ > kShardAlignment && size_ + bytes.size() > options_.file_bytes) {
    flush();
    open(file_ + 1);
  }
  if (size_ == 0) write_whole(shard_header(options_.kind));  // the disk was full when it was begun
  write_whole(bytes);
}

void ShardWriter::write_whole(std::span<const std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                     static_cast<off_t>(size_ + done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int code = errno;
      const bool is_whole = ::ftruncate(descriptor_, static_cast<off_t>(size_)) == 0;
      errno = code;
      fail_system(is_whole ? "write (what was written before is whole)" : "write", path_of(file_));
    }
    done += static_cast<std::size_t>(written);
  }
  size_ += bytes.size();
}

void ShardWriter::flush() {
  if (::fdatasync(descriptor_) != 0) fail_system("flush", path_of(file_));
}

}  // namespace talon
