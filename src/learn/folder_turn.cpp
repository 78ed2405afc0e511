#include "learn/folder_turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/error.h"
#include "io/quote.h"

namespace talon {

FolderTurn::FolderTurn(const std::filesystem::path& folder) {
  const std::string name = quote(folder.string());
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) fail("learn: cannot make the folder {}: {}", name, problem.message());
  const auto file = folder / "lock";
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int code = errno;
  if (descriptor_ >= 0) ::close(descriptor_);
  if (code == EWOULDBLOCK) {
    fail("learn: the folder {}: another server learns there: give each its own", name);
  }
  fail("learn: cannot write into the folder {}: {}", name, std::generic_category().message(code));
}

FolderTurn::~FolderTurn() { ::close(descriptor_); }

}  // namespace talon
