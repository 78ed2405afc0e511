#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace talon {
namespace {

[[noreturn]] void fail_system(std::string_view doing, const std::filesystem::path& path) {
  const int code = errno;
  fail("{} \"{}\": {}", doing, path.string(), std::generic_category().message(code));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // Not blocking: opening a pipe must not wait for its writer before it is refused below.
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number < 0) fail_system("open", path);
  const Descriptor descriptor(number);
  struct stat status = {};
  if (::fstat(number, &status) != 0) fail_system("look at", path);
  if (S_ISDIR(status.st_mode)) fail("open \"{}\": expected a file, found a folder", path.string());
  if (!S_ISREG(status.st_mode)) {
    fail("open \"{}\": expected a regular file, found a device or pipe", path.string());
  }
  if (status.st_size == 0) fail("open \"{}\": the file is empty", path.string());
  size_ = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, number, 0);
  if (address == MAP_FAILED) fail_system("map", path);
  data_ = static_cast<const std::byte*>(address);
  try {
    guard_ = ShrinkGuard(address, size_);
  } catch (...) {
    ::munmap(address, size_);
    throw;
  }
}

MappedFile::~MappedFile() {
  guard_ = ShrinkGuard();
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::check_whole() const {
  if (guard_.damaged()) {
    fail("read \"{}\": the file became shorter while it was read", path_.string());
  }
}

void MappedFile::forget_pages() const {
  ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);  // a refusal only costs memory
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      guard_(std::move(other.guard_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(guard_, other.guard_);
  return *this;
}

}  // namespace talon
