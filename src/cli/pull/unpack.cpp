#include "cli/pull/unpack.h"

#include <archive.h>
#include <archive_entry.h>

#include <memory>
#include <vector>

#include "core/error.h"

namespace talon {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

struct FreeArchive {
  void operator()(archive* opened) const { archive_read_free(opened); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

[[noreturn]] void fail_archive(const std::filesystem::path& path, archive* opened) {
  const char* reason = archive_error_string(opened);
  fail("unpack {}: {}", path.string(), reason ? reason : "damaged archive");
}

Archive open_archive(const std::filesystem::path& path) {
  Archive opened(archive_read_new());
  archive_read_support_format_zip(opened.get());
  archive_read_support_format_tar(opened.get());
  archive_read_support_filter_gzip(opened.get());
  if (archive_read_open_filename(opened.get(), path.c_str(), kPieceBytes) != ARCHIVE_OK)
    fail_archive(path, opened.get());
  return opened;
}

}  // namespace

std::uint64_t unpack_member(const std::filesystem::path& path, std::string_view member,
                            const std::function<void(std::span<const std::byte>)>& sink) {
  const Archive opened = open_archive(path);
  archive_entry* entry = nullptr;
  int status = ARCHIVE_OK;
  while ((status = archive_read_next_header(opened.get(), &entry)) == ARCHIVE_OK) {
    const char* name = archive_entry_pathname(entry);
    if (name && name == member) break;
  }
  if (status == ARCHIVE_EOF)
    fail("unpack {}: expected a member {}, found none", path.string(), member);
  if (status != ARCHIVE_OK) fail_archive(path, opened.get());
  std::vector<std::byte> piece(kPieceBytes);
  std::uint64_t total = 0;
  for (;;) {
    const la_ssize_t count = archive_read_data(opened.get(), piece.data(), piece.size());
    if (count < 0) fail_archive(path, opened.get());
    if (count == 0) return total;
    sink(std::span(piece).first(static_cast<std::size_t>(count)));
    total += static_cast<std::uint64_t>(count);
  }
}

}  // namespace talon
