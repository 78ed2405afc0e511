#include "io/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/error.h"

namespace talon {
namespace {

int open_to_lock(const std::filesystem::path& path) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, const std::string& doing,
                   const std::string& taken)
    : descriptor_(open_to_lock(path)) {
  if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int code = errno;
  if (descriptor_ >= 0) ::close(descriptor_);
  fail("{}: {}", doing, code == EWOULDBLOCK ? taken : std::generic_category().message(code));
}

FileLock::FileLock(const std::filesystem::path& path, const std::string& doing)
    : descriptor_(open_to_lock(path)) {
  int code = descriptor_ < 0 ? errno : 0;
  while (code == 0) {
    if (::flock(descriptor_, LOCK_EX) == 0) return;
    if (errno != EINTR) code = errno;
  }
  if (descriptor_ >= 0) ::close(descriptor_);
  fail("{}: {}", doing, std::generic_category().message(code));
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace talon
