#include "io/atomic_file.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "io/quote.h"

namespace talon {
namespace {

[[noreturn]] void fail_write(const std::filesystem::path& path, int code) {
  fail("write {}: {}", quote(path.string()), std::generic_category().message(code));
}

// Makes the new name itself last, too. A file system that cannot do this loses nothing but that.
void flush_folder(const std::filesystem::path& folder) {
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

/// The file itself where `path` is a link to it. Devices, pipes and folders are not to be replaced.
std::filesystem::path file_at(const std::filesystem::path& path) {
  std::error_code problem;
  const std::filesystem::path real = std::filesystem::canonical(path, problem);
  if (problem) return path;  // a new file, or what opening it tells
  if (std::filesystem::is_directory(real, problem)) fail_write(path, EISDIR);
  if (!std::filesystem::is_regular_file(real, problem)) {
    fail("write {}: expected a file, found a device or pipe", quote(path.string()));
  }
  return real;
}

/// A file that is being written aside, where a signal handler can read its name.
struct FileAside {
  enum State { kFree, kTaken, kNamed };
  std::atomic<int> state = kFree;
  std::array<char, PATH_MAX> name = {};
};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler reads it");

std::array<FileAside, 16> files_aside;  // what a signal handler may touch has to be global

/// Returns its place, or -1.
int note_aside(const std::filesystem::path& file) {
  const std::string& name = file.native();
  if (name.size() >= PATH_MAX) return -1;
  for (std::size_t place = 0; place < files_aside.size(); ++place) {
    FileAside& aside = files_aside[place];
    int is_free = FileAside::kFree;
    if (!aside.state.compare_exchange_strong(is_free, FileAside::kTaken)) continue;
    std::ranges::copy(name, aside.name.begin());
    aside.name[name.size()] = '\0';
    aside.state = FileAside::kNamed;
    return static_cast<int>(place);
  }
  return -1;
}

void forget_aside(int place) {
  if (place >= 0) files_aside[static_cast<std::size_t>(place)].state = FileAside::kFree;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(file_at(path)) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    aside_ = path_;
    aside_ += fmt::format(".{}.{}.tmp", ::getpid(), attempt);
    descriptor_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) {
      noted_ = note_aside(aside_);
      return;
    }
    if (errno != EEXIST) break;
  }
  fail_write(path_, errno);
}

AtomicFile::~AtomicFile() { give_up(); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  expects(descriptor_ >= 0, "AtomicFile::write: not committed yet");
  while (!bytes.empty()) {
    constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write(path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  expects(descriptor_ >= 0, "AtomicFile::commit: not committed yet");
  if (::fsync(descriptor_) != 0) fail_write(path_, errno);
  if (::close(std::exchange(descriptor_, -1)) != 0 ||
      ::rename(aside_.c_str(), path_.c_str()) != 0) {
    const int code = errno;
    ::unlink(aside_.c_str());
    forget_aside(std::exchange(noted_, -1));
    fail_write(path_, code);
  }
  forget_aside(std::exchange(noted_, -1));
  flush_folder(path_.parent_path());
}

void AtomicFile::give_up() {
  if (descriptor_ < 0) return;
  ::close(std::exchange(descriptor_, -1));
  ::unlink(aside_.c_str());
  forget_aside(std::exchange(noted_, -1));
}

void remove_files_aside() noexcept {
  for (FileAside& aside : files_aside) {
    if (aside.state == FileAside::kNamed) ::unlink(aside.name.data());
  }
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace talon
